"""Where the advisor's weights are."""

from pathlib import Path

from pace_async.errors import UsageError

TINY = Path(__file__).parent.parent / "advise" / "tiny"


def advisor_folder(model: str) -> Path:
    """The folder of an advisor: the one in the package for `tiny`, else a model directory. Raises UsageError."""
    folder = TINY if model == "tiny" else Path(model)
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"--advisor {model}: {folder} is not a model directory (it has no config.json); give one, or tiny."
        )
    return folder.resolve()
