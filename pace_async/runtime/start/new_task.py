"""A new task's folder, from the example that ships with pace (`configs/new_task`): it works before it is edited. The
same problem exists for programs in several languages (`configs/new_task/languages`), and with an evaluator that is a
command (`configs/new_task/command`).

Invariant: the folder is written whole or not at all. A folder that is not empty is never written into.
"""

import json
import re
import shutil
import tempfile
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.programs.languages import LANGUAGES, PYTHON, language_called
from pace_async.task import BUNDLED, CHECKOUT

EVALUATOR, CATALOGUE = "evaluator.py", "catalogue.yaml"
COMMAND, COMMANDS_EVALUATOR = "command", "evaluate.py"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def make_task(name: str, folder: Path, language: str = PYTHON, kind: str | None = None) -> None:
    """Write the folder. Without a `kind` the language decides it. Raises UsageError for a name that no task can have, a
    folder that is not empty, or a language or kind without an example."""
    texts = _texts(name, folder, language, kind)
    refuse_name(name)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is there already: name another with --folder, or remove it.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}.") as draft:
            task_folder = Path(draft) / "task"
            task_folder.mkdir()
            for file, text in texts.items():
                (task_folder / file).write_text(text, encoding="utf-8")
            if folder.exists():
                folder.rmdir()
            shutil.move(task_folder, folder)
    except OSError as error:
        raise UsageError(f"Cannot write {folder}: {error.strerror}.") from None


def refuse_name(name: str) -> None:
    """Raises UsageError for a name that no task can have."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a task: use small letters, digits and _, and begin with a letter, as in my_task."
        )


def templates() -> list[str]:
    """The languages with an example."""
    folder = _example() / "languages"
    return [
        PYTHON,
        *(language.name for language in LANGUAGES.values() if (folder / f"initial.{language.suffix}").is_file()),
    ]


def _texts(name: str, folder: Path, language: str, kind: str | None) -> dict[str, str]:
    """The content of each file of the new task."""
    entry = language_called(language)
    if entry is None or entry.name not in templates():
        raise UsageError(
            f"There is no example of a task in {language!r}: --language takes {', '.join(templates())}. A task in "
            "another language is one of these with other commands in task.yaml."
        )
    example, program = _example(), f"initial.{entry.suffix}"
    usual = "function" if entry.name == PYTHON else "process"
    if kind not in (None, usual, COMMAND) or (kind == COMMAND and entry.name != PYTHON):
        raise UsageError(
            f"There is no example of a task of kind {kind!r} in {entry.title}: --kind takes function and command with "
            "Python, and process with any other language."
        )
    own = example if entry.name == PYTHON else example / "languages"
    if kind == COMMAND:
        own = example / COMMAND
    commands = {
        key: [part.replace("{file}", program) for part in command]
        for key, command in (("build", entry.build), ("run", entry.run))
        if command
    }
    filled = {
        "name": name,
        "folder": _as_argument(folder),
        "program": program,
        "language": entry.name,
        "commands": "\n".join(f"{key}: {json.dumps(command)}" for key, command in commands.items()),
    }
    texts = {CATALOGUE: (example / CATALOGUE).read_text(encoding="utf-8")}
    if kind == COMMAND:
        texts[COMMANDS_EVALUATOR] = (own / COMMANDS_EVALUATOR).read_text(encoding="utf-8")
        texts[program] = (example / program).read_text(encoding="utf-8")
        del filled["program"]  # a word of the evaluator's command, which stays
    else:
        texts[EVALUATOR] = (example / EVALUATOR).read_text(encoding="utf-8")
        texts[program] = (own / program).read_text(encoding="utf-8")
    for file in ("task.yaml", "README.md"):
        text = (own / file).read_text(encoding="utf-8")
        for key, words in filled.items():
            text = text.replace(f"{{{key}}}", words)
        texts[file] = text
    return texts


def _example() -> Path:
    for root in (BUNDLED / "configs", CHECKOUT / "configs"):
        if (root / "new_task" / "task.yaml").is_file():
            return root / "new_task"
    raise UsageError("This installation has no example of a task: install pace-async again.")


def _as_argument(folder: Path) -> str:
    text = str(folder)
    return text if folder.is_absolute() or "/" in text else f"./{text}"
