"""A task's catalogue of named mechanisms and options, and the implementer that uses it to edit the parent.

The catalogue implementer replaces a model: it completes the loop, is reproducible and costs nothing. It reads only the
experiment's description. A description names an edit if it holds exactly one mechanism as a whole word and, after the
word `to`, exactly one of that mechanism's options, quoted or not. Any other description is a fault of the candidate.
It does not judge ideas.

A mechanism may have sites: places of the program each with a value of its own. A description then names exactly
one of its sites too, as in `set sensor3 predictor to lag1`. The program assigns `sensor3_predictor`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pace_async.errors import CandidateFault, UsageError
from pace_async.events.causes import NAMES_NO_MECHANISM, NAMES_NO_OPTION
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.programs.compiled import hash_off_loop
from pace_async.programs.languages import LANGUAGES, PYTHON, Language
from pace_async.programs.text import assigned, assignments
from pace_async.search.state import Member
from pace_async.task import Task, editable
from pace_async.yaml_text import NAME_PATTERN, mistake, read_yaml

Option = str | int | float
Site = Annotated[str, Field(pattern=NAME_PATTERN)]
SHOWN = 20
"""Most words of a list that an error names."""


class Mechanism(BaseModel):
    """One assignment in the evolve block and its possible values."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(pattern=NAME_PATTERN, description="The name assigned in the evolve block.")
    about: str = Field(description="What it steers, in a few words.")
    options: tuple[Option, ...] = Field(description="The values it may take, at least two.")
    sites: tuple[Site, ...] = Field((), description="Where it is set: SITE_NAME is assigned for each. By default NAME.")

    @model_validator(mode="after")
    def _distinct(self) -> "Mechanism":
        words = [str(option) for option in self.options]
        if len(words) < 2:
            raise ValueError(f"{self.name} needs at least two options: add one, or remove the mechanism")
        if twice := [word for word, amount in Counter(words).items() if amount > 1]:
            raise ValueError(f"{self.name} has the option {twice[0]} twice: give each option once")
        if strange := [word for word in words if not re.fullmatch(r"[\w.+-]+", word)]:
            raise ValueError(f"the option {strange[0]!r} of {self.name} is not a single word or number")
        if twice := [site for site, amount in Counter(self.sites).items() if amount > 1]:
            raise ValueError(f"{self.name} has the site {twice[0]} twice: give each site once")
        return self

    @property
    def assigned(self) -> tuple[str, ...]:
        """The names that the program assigns."""
        return tuple(f"{site}_{self.name}" for site in self.sites) or (self.name,)


class Catalogue(BaseModel):
    """The mechanisms of a task."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    sites: tuple[Site, ...] = Field((), description="Sites of each mechanism that names none.")
    mechanisms: tuple[Mechanism, ...] = Field(min_length=1, description="Each name once.")

    @model_validator(mode="before")
    @classmethod
    def _with_sites(cls, raw: Any) -> Any:
        """Gives each mechanism without sites those of the catalogue."""
        if not isinstance(raw, dict):
            return raw
        tree = cast("dict[str, Any]", raw)
        mechanisms, sites = tree.get("mechanisms"), tree.get("sites")
        if not sites or not isinstance(mechanisms, list):
            return tree
        every: list[Any] = [
            {"sites": sites, **cast("dict[str, Any]", mechanism)} if isinstance(mechanism, dict) else mechanism
            for mechanism in cast("list[Any]", mechanisms)
        ]
        return {**tree, "mechanisms": every}

    @model_validator(mode="after")
    def _named_once(self) -> "Catalogue":
        names = [mechanism.name for mechanism in self.mechanisms]
        if twice := [name for name, amount in Counter(names).items() if amount > 1]:
            raise ValueError(f"{twice[0]} is named twice: give each mechanism a name of its own")
        assigned = [name for mechanism in self.mechanisms for name in mechanism.assigned]
        if len(set(assigned)) != len(assigned):
            raise ValueError("two mechanisms at sites have one name in the program")
        sites = {site for mechanism in self.mechanisms for site in mechanism.sites}
        words = {*names, *(str(option) for mechanism in self.mechanisms for option in mechanism.options)}
        if sites & words:
            raise ValueError(f"the site {min(sites & words)} has the name of a mechanism or an option")
        return self

    @cached_property
    def targets(self) -> dict[str, Mechanism]:
        """Each mechanism by what an idea calls it: its name, or a site and its name."""
        return {
            f"{site} {mechanism.name}" if site else mechanism.name: mechanism
            for mechanism in self.mechanisms
            for site in mechanism.sites or ("",)
        }

    def edits(self) -> Iterator["MechanismEdit"]:
        """Every edit that can be named."""
        for mechanism in self.mechanisms:
            for site in mechanism.sites or (None,):
                for option in mechanism.options:
                    yield MechanismEdit(mechanism.name, option, site)


@dataclass(frozen=True, slots=True)
class MechanismEdit:
    """Set `mechanism` to `option`, at `site` if it has sites."""

    mechanism: str
    option: Option
    site: str | None = None

    @property
    def assigned(self) -> str:
        """The name that the program assigns."""
        return self.mechanism if self.site is None else f"{self.site}_{self.mechanism}"


def load_catalogue(path: Path) -> Catalogue:
    """Load a catalogue. Raises UsageError, in one sentence that names the file and the place."""
    try:
        return Catalogue.model_validate(read_yaml(path))
    except ValidationError as error:
        raise UsageError(f"{path}: {mistake(dict(error.errors()[0]), 'the catalogue')}.") from None


def refuse_unless_assigned(task: Task) -> None:
    """Raises UsageError for a catalogue that names something which the task's seed program does not assign exactly
    once. Every experiment on it would fail."""
    if task.catalogue_path is None:
        return
    _, block, _ = editable(task.program)
    values = assignments(block, task.spec.written_in.name)
    names = [name for mechanism in load_catalogue(task.catalogue_path).mechanisms for name in mechanism.assigned]
    wrong = [name for name in names if len(values.get(name, ())) != 1]
    if wrong:
        times = len(values.get(wrong[0], ()))
        others = f" ({len(wrong)} such names)" if len(wrong) > 1 else ""
        raise UsageError(
            f"{task.catalogue_path} names {wrong[0]}, which the evolve block of {task.folder / task.spec.program} "
            f"assigns {times} times instead of once{others}: correct one of the two, and see `pace task check "
            f"{task.reference}`."
        )


def find_edit(catalogue: Catalogue, text: str) -> MechanismEdit:
    """The edit that `text` names. Raises CandidateFault("not_implemented") unless there is exactly one."""
    words = re.findall(r"[\w.+-]*\w", text)
    mechanisms = [mechanism for mechanism in catalogue.mechanisms if mechanism.name in words]
    if len(mechanisms) != 1:
        names = ", ".join(mechanism.name for mechanism in mechanisms) or "none"
        raise CandidateFault("not_implemented", f"{NAMES_NO_MECHANISM}, and names {names}")
    options = {str(option): option for option in mechanisms[0].options}
    after = [following for word, following in pairwise(words) if word == "to"]
    chosen = [options[word] for word in after if word in options]
    if len(chosen) != 1:
        raise CandidateFault("not_implemented", f"{mechanisms[0].name} {NAMES_NO_OPTION} {_some(list(options))}")
    if not mechanisms[0].sites:
        return MechanismEdit(mechanisms[0].name, chosen[0])
    sites = sorted(set(words).intersection(mechanisms[0].sites))
    if len(sites) != 1:
        raise CandidateFault("not_implemented", f"{mechanisms[0].name} needs one site of {_some(mechanisms[0].sites)}")
    return MechanismEdit(mechanisms[0].name, chosen[0], sites[0])


def _some(words: Sequence[str]) -> str:
    """The words, or the first SHOWN of them and how many there are."""
    return ", ".join(words) if len(words) <= SHOWN else f"{', '.join(words[:SHOWN])} … ({len(words)})"


def apply_edit(block: str, edit: MechanismEdit, language: Language | None = None) -> str:
    """The evolve block with the value of one assignment replaced and its comment kept. Raises
    CandidateFault("not_implemented") unless the block assigns the name exactly once."""
    lines = assigned(block, language or LANGUAGES[PYTHON], edit.assigned)
    if len(lines) != 1:
        raise CandidateFault("not_implemented", f"the parent does not assign {edit.assigned} exactly once")
    value = f'"{edit.option}"' if isinstance(edit.option, str) else repr(edit.option)
    begin, end = lines[0].span("value")
    return block[:begin] + value + block[end:]


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

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        edit = find_edit(self._catalogue, experiment.description)
        before, block, after = editable(parent.program)
        program = before + apply_edit(block, edit, self._language) + after
        language = self._language.name
        if await hash_off_loop(program, language) == await hash_off_loop(parent.program, language):
            raise CandidateFault("unchanged", f"{edit.assigned} is {edit.option} already")
        return ImplementedProgram(program, mechanism=edit.mechanism)
