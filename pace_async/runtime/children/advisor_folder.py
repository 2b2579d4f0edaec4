"""The folder of the advisor's weights."""

from pathlib import Path

from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.registry.advisors import ADVISORS, advisor_of
from pace_async.registry.engines import engine_of
from pace_async.registry.objectives import trains
from pace_async.runtime.children.hub_cache import cached_folder, is_hub_id

_ADVISE = Path(__file__).parents[2] / "advise"
TINY = _ADVISE / "tiny"
READER = _ADVISE / "reader"
PACKAGED = {name: _ADVISE / name for name, kind in ADVISORS.items() if kind.packaged}
"""Advisors in the package, by name."""
MADE_HERE = Path("~/.cache/pace")
"""The default folder for models made by `scripts/advisor/warm_start.py`."""
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
"""Files of which a tokenizer has one."""


def refuse_without_tokenizer(config: Config) -> None:
    """Raises UsageError for an advisor whose folder has no tokenizer. Neither the engine that the run starts nor the
    learner would start."""
    model = config.advisor.model
    needed = not engine_of(config.advisor.engine).runs_already or trains(config.learner.objective)
    if not (advisor_of(model).served and needed):
        return
    folder = advisor_folder(model)
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise UsageError(
            f"--advisor {model} has no tokenizer ({TOKENIZERS[0]} or {TOKENIZERS[1]}): put the model's own beside its "
            "config.json."
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
            "`python scripts/advisor/warm_start.py` makes it"
            if made_here
            else f"give one (docs/engines.md says how they are made), or {' or '.join(PACKAGED)}"
        )
        raise UsageError(f"--advisor {model} is not a model directory (it has no config.json); {remedy}.")
    return folder.resolve()
