"""A task's catalogue of named mechanisms and options, and the implementer that uses it to edit the parent.

The catalogue implementer replaces a model: it completes the loop, is reproducible and costs nothing. It reads only the
experiment's description. A description names an edit if it holds exactly one mechanism as a whole word and, after the
word `to`, exactly one of that mechanism's options, quoted or not. Any other description is a fault of the candidate.
It does not judge ideas.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pace_async.errors import CandidateFault, UsageError
from pace_async.implement.base import Experiment, Implemented
from pace_async.programs.compiled import hash_off_loop
from pace_async.programs.languages import PYTHON, Language, assigned
from pace_async.search.state import Member
from pace_async.task import Task, editable

Option = str | int | float


class Mechanism(BaseModel):
    """One assignment in the evolve block and its possible values."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="The name assigned in the evolve block.")
    about: str = Field(description="What it steers, in a few words.")
    options: tuple[Option, ...] = Field(min_length=2, description="The values it may take.")

    @model_validator(mode="after")
    def _distinct(self) -> "Mechanism":
        words = [str(option) for option in self.options]
        if len(set(words)) != len(words) or any(not re.fullmatch(r"[\w.+-]+", word) for word in words):
            raise ValueError("options must be distinct single words or numbers")
        return self


class Catalogue(BaseModel):
    """The mechanisms of a task."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    mechanisms: tuple[Mechanism, ...] = Field(min_length=1, description="Each name once.")

    @model_validator(mode="after")
    def _named_once(self) -> "Catalogue":
        names = [mechanism.name for mechanism in self.mechanisms]
        if len(set(names)) != len(names):
            raise ValueError("a mechanism is named twice")
        return self


@dataclass(frozen=True, slots=True)
class MechanismEdit:
    """Set `mechanism` to `option`."""

    mechanism: str
    option: Option


def load_catalogue(path: Path) -> Catalogue:
    """Load a catalogue. Raises UsageError, in one sentence that names the file and the place."""
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Catalogue.model_validate(raw)
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as YAML: {str(error).splitlines()[0]}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "catalogue"
        raise UsageError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}.") from None


def find_edit(catalogue: Catalogue, text: str) -> MechanismEdit:
    """The edit that `text` names. Raises CandidateFault("not_implemented") unless there is exactly one."""
    words = re.findall(r"[\w.+-]*\w", text)
    named = [mechanism for mechanism in catalogue.mechanisms if mechanism.name in words]
    if len(named) != 1:
        names = ", ".join(mechanism.name for mechanism in named) or "none"
        raise CandidateFault("not_implemented", f"the experiment must name one mechanism, and names {names}")
    options = {str(option): option for option in named[0].options}
    after = [following for word, following in pairwise(words) if word == "to"]
    chosen = [options[word] for word in after if word in options]
    if len(chosen) != 1:
        known = ", ".join(options)
        raise CandidateFault("not_implemented", f"{named[0].name} must be set to one of {known}")
    return MechanismEdit(named[0].name, chosen[0])


def apply_edit(block: str, edit: MechanismEdit, language: Language | None = None) -> str:
    """The evolve block with the value of one assignment replaced and its comment kept. Raises
    CandidateFault("not_implemented") unless the block assigns the name exactly once."""
    if language is None or language.name == PYTHON:
        line = _assignment(edit.mechanism)
    else:
        line = assigned(language, edit.mechanism)
    if len(line.findall(block)) != 1:
        raise CandidateFault("not_implemented", f"the parent does not assign {edit.mechanism} exactly once")
    value = f'"{edit.option}"' if isinstance(edit.option, str) else repr(edit.option)
    return line.sub(lambda match: f"{match[1]}{value}{match[3]}", block)


def _assignment(name: str) -> re.Pattern[str]:
    """In Python, where any expression may stand after the sign."""
    return re.compile(rf"^([ \t]*{re.escape(name)}[ \t]*=[ \t]*)([^#\n]*?)([ \t]*(?:#.*)?)$", re.MULTILINE)


class CatalogImplementer:
    """Implements `implement.base.Implementer`. Raises UsageError for a task without a valid catalogue."""

    def __init__(self, task: Task) -> None:
        if task.catalogue_path is None:
            raise UsageError(
                f"Task {task.name!r} has no catalogue, which the catalog implementer needs: name a model by "
                "--implementer, or a catalogue in task.yaml."
            )
        self._catalogue = load_catalogue(task.catalogue_path)
        self._language = task.spec.written_in

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> Implemented:
        edit = find_edit(self._catalogue, experiment.description)
        before, block, after = editable(parent.program)
        program = before + apply_edit(block, edit, self._language) + after
        language = self._language.name
        if await hash_off_loop(program, language) == await hash_off_loop(parent.program, language):
            raise CandidateFault("unchanged", f"{edit.mechanism} is {edit.option} already")
        return Implemented(program, mechanism=edit.mechanism)
