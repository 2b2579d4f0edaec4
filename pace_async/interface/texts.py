"""Programs given as a file or as text."""

from pathlib import Path

from pace_async.errors import UsageError


def given_text(program: str | Path) -> str | None:
    """The program itself where it is given as text, None where it is the name of a file. A text has several lines."""
    return program if isinstance(program, str) and "\n" in program else None


def text_of(file: Path) -> str:
    """The text of a file. Raises UsageError."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"Cannot read {file}: {why}.") from None
