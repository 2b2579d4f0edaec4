"""The folder of the advisor's weights."""

from pathlib import Path

from pace_async.errors import UsageError

TINY = Path(__file__).parents[2] / "advise" / "tiny"
MADE_HERE = Path("~/.cache/pace")
"""The default folder for models made by `scripts/advisor/warm_start.py`."""


def advisor_folder(model: str) -> Path:
    """The folder of an advisor: the bundled one for `tiny`, else a model directory, with `~` expanded. Raises
    UsageError."""
    folder = TINY if model == "tiny" else Path(model).expanduser()
    if not (folder / "config.json").is_file():
        made_here = MADE_HERE.expanduser() in folder.parents
        remedy = (
            "`python scripts/advisor/warm_start.py` makes it"
            if made_here
            else "give one (docs/engines.md says how they are made), or tiny"
        )
        raise UsageError(f"--advisor {model} is not a model directory (it has no config.json); {remedy}.")
    return folder.resolve()
