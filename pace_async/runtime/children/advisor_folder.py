"""The folder of the advisor's weights, and whether learner and engine can read it."""

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from pace_async.config import Config
from pace_async.errors import NotHere, UsageError
from pace_async.model_folder import NO_WEIGHTS, TOKENIZERS, contradiction, has_other_weights, missing_file, weight_files
from pace_async.registry.advisors import ADVISORS, advisor_of
from pace_async.registry.engines import engine_of
from pace_async.registry.objectives import trains
from pace_async.registry.trainers import TRAINERS
from pace_async.runtime.children.hub_cache import cached_folder, is_hub_id

_ADVISE = Path(__file__).parents[2] / "advise"
TINY = _ADVISE / "tiny"
READER = _ADVISE / "reader"
PACKAGED = {name: _ADVISE / name for name, kind in ADVISORS.items() if kind.packaged}
"""Advisors in the package, by name."""
MADE_HERE = Path("~/.cache/pace")
"""The default folder for models made by `research/advisor/warm_start.py`."""
MODEL_TYPES = ("auto_mappings.py", "configuration_auto.py")
"""Files of transformers that name every type of model that it has."""


def trains_here(config: Config) -> bool:
    """Whether a learner of the run loads the advisor's weights on this machine."""
    return trains(config.learner.objective) and not TRAINERS[config.learner.trainer].elsewhere


def refuse_incomplete(config: Config) -> None:
    """Raises UsageError for an advisor whose folder lacks a tokenizer or a part of its weights, has them in another
    format alone, or has two sets of them. Neither the engine that the run starts nor the learner would start. A folder
    without any weights can still be planned for."""
    model = config.advisor.model
    needed = not engine_of(config.advisor.engine).runs_already or trains_here(config)
    if not (advisor_of(model).served and needed):
        return
    folder = advisor_folder(model)
    lacks = missing_file(folder)
    if lacks == "a tokenizer":
        raise NotHere(
            f"--advisor {model} has no tokenizer ({TOKENIZERS[0]} or {TOKENIZERS[1]}): put the model's own beside its "
            "config.json."
        )
    if lacks and (lacks != NO_WEIGHTS or has_other_weights(folder)):
        raise UsageError(f"--advisor {model} lacks {lacks}: put the model's own beside its config.json.")
    if conflict := contradiction(folder):
        raise UsageError(f"--advisor {model}: {conflict}. Remove one of the two.")


def refuse_without_weights(config: Config) -> None:
    """Raises NotHere for an advisor whose folder has no weights at all, where the run would load them."""
    model = config.advisor.model
    needed = not engine_of(config.advisor.engine).runs_already or trains_here(config)
    if advisor_of(model).served and needed and not weight_files(advisor_folder(model)):
        raise NotHere(f"--advisor {model} has no {NO_WEIGHTS}: put the model's own beside its config.json.")


def refuse_unless_transformers_knows(config: Config) -> None:
    """Raises UsageError for an advisor of a type that transformers does not have, where it would load the advisor: in
    the learner, and in the engine of the package. Code in the model's own folder is never run there."""
    model = config.advisor.model
    loads = engine_of(config.advisor.engine).computes_anywhere or trains_here(config)
    kind = advisor_of(model)
    if not kind.served or kind.packaged or not loads:
        return
    try:
        configuration: dict[str, Any] = json.loads((advisor_folder(model) / "config.json").read_text("utf-8"))
        library = distribution("transformers")
        places = [Path(str(library.locate_file(f"transformers/models/auto/{name}"))) for name in MODEL_TYPES]
        known = "".join(place.read_text("utf-8") for place in places)
    except (OSError, ValueError, PackageNotFoundError):
        return
    model_type = configuration.get("model_type")
    if isinstance(model_type, str) and not re.search(rf"""["']{re.escape(model_type)}["']\s*[,:]""", known):
        code = ", and code of the model's own folder (auto_map) is not run" if configuration.get("auto_map") else ""
        raise UsageError(
            f"--advisor {model} is a model of the type {model_type}, which transformers {library.version} does not "
            f"have{code}: give another model."
        )


def advisor_folder(model: str) -> Path:
    """The folder of an advisor: a bundled one by its name, a model of the hub in its cache, else a model directory,
    with `~` expanded. Raises UsageError."""
    if is_hub_id(model):
        return cached_folder(model)
    folder = PACKAGED.get(model) or Path(model).expanduser()
    if not (folder / "config.json").is_file():
        made_here = MADE_HERE.expanduser() in folder.parents
        remedy = (
            "`python research/advisor/warm_start.py` makes it"
            if made_here
            else f"give one (docs/engines.md says how they are made), or {' or '.join(PACKAGED)}"
        )
        raise UsageError(f"--advisor {model} is not a model directory (it has no config.json); {remedy}.")
    return folder.resolve()
