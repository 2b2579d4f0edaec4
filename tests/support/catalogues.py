"""Configurations with an advisor, and tasks with a catalogue of a given size or none."""

from dataclasses import replace
from pathlib import Path

from pace_async.config import Config
from pace_async.simulate.runs import TINY_TASK
from pace_async.task import Task, load_task

TASK = load_task("circle_packing")


def config_with(model: str, engine: str = "embedded") -> Config:
    return Config.model_validate({"advisor": {"model": model, "engine": engine}})


def with_catalogue(folder: Path, mechanisms: int, options: int) -> Task:
    lines = "".join(
        f"  - {{name: m{n}, about: a mechanism, options: [{', '.join(map(str, range(options)))}]}}\n"
        for n in range(mechanisms)
    )
    (folder / "catalogue.yaml").write_text(f"mechanisms:\n{lines}")
    return replace(TASK, folder=folder)


def with_unread_catalogue(folder: Path) -> Task:
    """With a word that the prompts of an advisor that reads catalogues use themselves."""
    (folder / "catalogue.yaml").write_text('mechanisms:\n  - {name: m, about: a mechanism, options: ["to", "fro"]}\n')
    return replace(TASK, folder=folder)


def with_sites(folder: Path) -> Task:
    """The task of simulated runs, with a catalogue: a mechanism at four sites of two kinds, and one without sites."""
    (folder / "catalogue.yaml").write_text(
        "mechanisms:\n"
        "  - {name: step, about: a mechanism, options: [0, 1, 2], sites: [low1, low2, high1, high2]}\n"
        "  - {name: alone, about: another, options: [slow, fast]}\n"
    )
    lines = "".join(f"{site}_step = 0\n" for site in ("low1", "low2", "high1", "high2"))
    program = f'# EVOLVE-BLOCK-START\n{lines}alone = "slow"\n# EVOLVE-BLOCK-END\n'
    spec = TINY_TASK.spec.model_copy(update={"catalogue": "catalogue.yaml"})
    return replace(TINY_TASK, folder=folder, spec=spec, program=program)


def without_catalogue() -> Task:
    return replace(TASK, spec=TASK.spec.model_copy(update={"catalogue": None}))
