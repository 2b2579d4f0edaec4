"""Where tasks lie: those under ./tasks, those of the checkout, and those of the package."""

from difflib import get_close_matches
from pathlib import Path

from pace_async.errors import UsageError

PACKAGE = Path(__file__).parents[1]
BUNDLED = PACKAGE / "_bundled"
CHECKOUT = PACKAGE.parent


def task_folders() -> dict[str, Path]:
    """Every task that can be named: those under ./tasks first, then the bundled ones."""
    folders: dict[str, Path] = {}
    for root in (Path("tasks"), CHECKOUT / "tasks", BUNDLED / "tasks"):
        if root.is_dir():
            for spec in sorted(root.glob("*/task.yaml")):
                folders.setdefault(spec.parent.name, spec.parent)
    return folders


def find_task(name: str) -> Path:
    """The folder of a task named by path, or by name under ./tasks, or among the bundled."""
    if (Path(name) / "task.yaml").is_file():
        return Path(name)
    folders = task_folders()
    if name in folders:
        return folders[name]
    if Path(name).is_dir():
        raise UsageError(f"{name} is a folder without task.yaml, so it is not a task: `pace task init` makes one.")
    near = get_close_matches(name, folders, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`pace task list` shows all tasks."
    raise UsageError(f"There is no task {name!r}: {hint}")
