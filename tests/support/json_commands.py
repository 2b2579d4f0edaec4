"""Arguments with which each command that takes --json prints something."""

from pathlib import Path

from tests.support.examples import OPENEVOLVE, example

RUN = "circle_packing-1"
ARGUMENTS: dict[str, list[str]] = {
    "idea list": ["circle_packing-1"],
    "note": ["circle_packing-1"],
    "run": ["--dry-run"],
    "status": [RUN],
    "list": [],
    "compare": [RUN],
    "log": [RUN, "--to", "tensorboard=logs"],
    "best": [RUN],
    "show": [RUN, "1"],
    "diff": [RUN],
    "rescore": [RUN, "--dry-run"],
    "export": [RUN, "--what", "updates"],
    "report": [RUN],
    "eval": ["circle_packing", "bad.py"],
    "advantages": ["1", "2", "3", "4"],
    "simulate": ["--candidates", "40"],
    "plan": ["run.yaml", "--card", "79.2"],
    "doctor": [],
    "task list": [],
    "task init": ["new"],
    "task check": ["./broken"],
    "task import": ["openevolve", "example", "--to", "imported", "--no-try"],
    "db sql": [RUN, "select 1 as one"],
    "db check": [RUN],
    "db backup": [RUN, "copy.db"],
    "db copy": [RUN, "copied"],
    "db upgrade": [RUN],
    "prompts show": ["circle_packing"],
    "config show": [],
    "config validate": ["run.yaml"],
}


def write_places(folder: Path) -> None:
    """What the arguments name, beside the run: files of settings, a program that fails, a task and an example."""
    (folder / "run.yaml").write_text("learner: {k: 2}\n")
    (folder / "bad.py").write_text("def pack(instance):\n    raise ValueError\n")
    (folder / "broken").mkdir()
    (folder / "broken" / "task.yaml").write_text("name: broken\n")
    example(folder / "example", OPENEVOLVE)
