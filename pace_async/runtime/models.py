"""Where the advisor's weights are."""

from pathlib import Path

from pace_async.errors import UsageError

TINY = Path(__file__).parent.parent / "advise" / "tiny"
MADE_HERE = Path("~/.cache/pace")
"""Where `scripts/warm_start.py` writes the models that it makes, unless it is given a folder."""


def advisor_folder(model: str) -> Path:
    """The folder of an advisor: the one in the package for `tiny`, else a model directory, `~` being the user's home.
    Raises UsageError."""
    folder = TINY if model == "tiny" else Path(model).expanduser()
    if not (folder / "config.json").is_file():
        made_here = MADE_HERE.expanduser() in folder.parents
        remedy = (
            "`python scripts/warm_start.py` makes it"
            if made_here
            else "give one (docs/engines.md says how they are made), or tiny"
        )
        raise UsageError(f"--advisor {model} is not a model directory (it has no config.json); {remedy}.")
    return folder.resolve()
