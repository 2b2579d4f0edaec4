"""Programs given as a file or as text."""

import io
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.outside import sound_file

MOST_MB = 64
"""A larger file is not read into memory. Programs of more than 262,144 characters have an outcome of their own."""


def given_text(program: str | Path) -> str | None:
    """The program itself where it is given as text, None where it is the name of a file. A text has several lines."""
    return program if isinstance(program, str) and "\n" in program else None


def text_of(file: Path) -> str:
    """The text of a file. Raises UsageError."""
    try:
        with file.open("rb") as stream:
            content = stream.read((MOST_MB << 20) + 1)
        if len(content) > MOST_MB << 20:
            raise UsageError(f"{file} has more than {MOST_MB} MiB, so it is no program.")
        text = sound_file(content.decode("utf-8"))
        return io.StringIO(text, newline=None).read()  # with ends of lines as open() reads them
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"Cannot read {file}: {reason}.") from None
