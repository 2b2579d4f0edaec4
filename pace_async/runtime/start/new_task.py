"""A new task's folder, from the example that ships with pace (`configs/new_task`): it works before it is edited.

Invariant: either the whole folder is written or nothing is; a folder that holds something is never written into.
"""

import re
import shutil
import tempfile
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.task import BUNDLED, CHECKOUT

FILES = ("task.yaml", "initial.py", "evaluator.py", "catalogue.yaml", "README.md")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def make_task(name: str, folder: Path) -> None:
    """Write the folder. Raises UsageError for a name that no task can have, or a folder that is not empty."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a task: use small letters, digits and _, and begin with a letter, as in my_task."
        )
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is there already: name another with --folder, or remove it.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}.") as draft:
            made = Path(draft) / "task"
            made.mkdir()
            for file in FILES:
                words = (_example() / file).read_text(encoding="utf-8")
                if file in ("task.yaml", "README.md"):
                    words = words.replace("{name}", name).replace("{folder}", _as_argument(folder))
                (made / file).write_text(words, encoding="utf-8")
            if folder.exists():
                folder.rmdir()
            shutil.move(made, folder)
    except OSError as error:
        raise UsageError(f"Cannot write {folder}: {error.strerror}.") from None


def _example() -> Path:
    for root in (BUNDLED / "configs", CHECKOUT / "configs"):
        if (root / "new_task" / "task.yaml").is_file():
            return root / "new_task"
    raise UsageError("This installation has no example of a task: install pace-async again.")


def _as_argument(folder: Path) -> str:
    text = str(folder)
    return text if folder.is_absolute() or "/" in text else f"./{text}"
