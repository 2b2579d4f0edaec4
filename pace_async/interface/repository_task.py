"""Makes a task of a Git repository and the command that evaluates it, as `pace task init --from` does."""

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pace_async.errors import SeedProgramFails, UsageError
from pace_async.interface.evaluating import evaluate_program
from pace_async.interface.own_program import Given, measured, new_task_folder

if TYPE_CHECKING:
    from pace_async.task.own_program import Direction
    from pace_async.task.repository import Snapshot
    from pace_async.task.spec import Bounds

FILES, SCORER = "files", "tests_score.py"
TESTS = ("!tests/**", "!test/**", "!**/tests/**", "!**/test_*.py", "!**/*_test.py", "!**/conftest.py")
"""What may not change where the user does not say what may: the tests, which are the evaluator."""
MEMORY_MB = 4096


@dataclass(frozen=True, slots=True)
class MadeOfRepository:
    """A task that was made: its folder, the commit, the score of its seed program, and what was left out."""

    folder: Path
    revision: str
    score: float
    left_out: tuple[str, ...]


def make_repository_task(
    name: str,
    repository: Path,
    folder: Path,
    evaluate: str,
    direction: "Direction",
    *,
    revision: str = "HEAD",
    change: Sequence[str] = (),
    show: Sequence[str] = (),
    hide: Sequence[str] = (),
) -> MadeOfRepository:
    """Write the task into a new folder, and score the files of the commit in the sandbox. Bounds and limits are guessed
    from that. Raises UsageError, and SeedProgramFails with the evaluator's words if there is no score. Then the folder
    is removed."""
    from pace_async.task.repository import snapshot_of, write_snapshot
    from pace_async.yaml_text import dumped

    words = _words(evaluate)
    snapshot = snapshot_of(repository, revision)
    fields = _fields(name, snapshot, words, direction)
    globs = {"change": change or ["**", *TESTS], "show": show, "hide": hide}
    fields |= {field: list(patterns) for field, patterns in globs.items() if patterns}

    def write(bounds: "Bounds", limit: float, *, deterministic: bool) -> None:
        guessed = {"bounds": {"lower": bounds.lower, "upper": bounds.upper}, "timeout_s": limit}
        text = dumped({**fields, **guessed, "deterministic": deterministic})
        (folder / "task.yaml").write_text(text, encoding="utf-8")

    def score_program() -> tuple[float, float]:
        trial = evaluate_program(folder, folder / FILES)
        if trial["score"] is None:
            feedback = f"\n{trial['feedback']}" if trial["feedback"] else ""
            raise SeedProgramFails(
                f"{repository} has no score: {trial['outcome'].replace('_', ' ')}: {trial['detail']}. The command ran "
                f"in a copy of the tracked files, without network.{feedback}"
            )
        return trial["score"], trial["seconds"]

    with new_task_folder(folder):
        write_snapshot(snapshot, folder / FILES)
        if _is_pytest(words):
            shutil.copyfile(_scorer(), folder / SCORER)
        score, *_ = measured(str(repository), score_program, write, direction, Given())
    return MadeOfRepository(folder, snapshot.revision, score, snapshot.left_out)


def _fields(name: str, snapshot: "Snapshot", words: Sequence[str], direction: "Direction") -> dict[str, Any]:
    """The fields of task.yaml but the globs and the guessed ones."""
    command, preference = shlex.join(words), "higher" if direction == "maximize" else "lower"
    measured = f"The score is what `{command}` prints; {preference} is better."
    scoring: dict[str, Any] = {"evaluate": list(words), "metrics": "printed", "score": ["score", "combined_score"]}
    if _is_pytest(words):
        mode = "passed" if direction == "maximize" else "time"
        share, time = (
            f"The score is the share of tests that pass in `{command}`.",
            (f"The score is the seconds that the tests of `{command}` take, which all have to pass; lower is better."),
        )
        measured = share if mode == "passed" else time
        evaluate = ["python", f"{{task}}/{SCORER}", "{results}", mode, *_as_module(words)]
        scoring = {"evaluate": evaluate, "metrics": "metrics.json", "score": "score"}
    return {
        "name": name,
        "kind": "command",
        "background": f"Improve the repository {snapshot.repository.name}. {measured}",
        "coding_requirements": f"`{command}` must go on working.",
        "direction": direction,
        "program": FILES,
        **({"ignore": list(snapshot.ignore)} if snapshot.ignore else {}),
        "repository": str(snapshot.repository),
        "revision": snapshot.revision,
        **scoring,
        "feedback": True,
        "memory_mb": MEMORY_MB,
    }


def _words(evaluate: str) -> list[str]:
    try:
        words = shlex.split(evaluate)
    except ValueError as error:
        raise UsageError(f"--evaluate {evaluate!r} is no command ({str(error).lower()}).") from None
    if not words:
        raise UsageError("--evaluate is empty: give a command, as in 'pytest -q'.")
    return words


def _is_pytest(words: Sequence[str]) -> bool:
    return words[0] in ("pytest", "py.test") or _python_runs_pytest(words)


def _python_runs_pytest(words: Sequence[str]) -> bool:
    return words[0] in ("python", "python3") and list(words[1:3]) == ["-m", "pytest"]


def _as_module(words: Sequence[str]) -> list[str]:
    """The command by a name that the sandbox has."""
    return list(words) if _python_runs_pytest(words) else ["python", "-m", "pytest", *words[1:]]


def _scorer() -> Path:
    from pace_async.task import BUNDLED, CHECKOUT

    for root in (BUNDLED / "configs", CHECKOUT / "configs"):
        if (file := root / "new_task" / "repository" / SCORER).is_file():
            return file
    raise UsageError("This installation has no examples of tasks: install pace-async again.")
