"""Every cheat that has been published, and every one of our corpus, on two tasks: each is caught, its row says how, and
no score of it is kept."""

import sys
from typing import Any

import anyio
import pytest

from pace_async.task import Task, load_task
from tests.evaluate.sandbox.cheats import BY_HEART, HONEST, OWN, corpus, run_corpus

TASKS = ("eplb", "circle_packing")
FORGED = "a forged result gets no score"
STOPPED = "a program that stops its clock is stopped"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, Any]]]:
    """Both runs, side by side: rows of candidates by task and by cheat."""
    found: dict[str, dict[str, dict[str, Any]]] = {}

    async def one(task: Task) -> None:
        found[task.name] = await run_corpus(task, tmp_path_factory.mktemp(task.name), corpus(task))

    async def both() -> None:
        async with anyio.create_task_group() as tg:
            for name in TASKS:
                tg.start_soon(one, load_task(name))

    anyio.run(both)
    return found


PUBLISHED = {
    "more than exists": ("more_replicas_than_slots", "more_circles"),
    "counts that are only claimed": ("claimed_counts", "negative_radius"),
    "everything everywhere": ("every_expert_in_every_slot", "one_circle_many_times"),
    "one value throughout": ("one_expert_everywhere", "one_circle_many_times"),
    "within a tolerance": ("nearly_whole", "slack"),
    "a number that is none": ("not_a_number", "not_a_number"),
    "a stopped clock": (STOPPED, STOPPED),
    "answers rewritten in memory": ("rewritten_answers", "rewritten_answers"),
    "a number equal to everything": ("equal_to_everything", "equal_to_everything"),
    "a forged result": (FORGED, FORGED),
    "hidden instances by heart": (BY_HEART,),
}
OUTCOMES = {
    "every_expert_in_every_slot": "output_overflow",  # 24 MB
    STOPPED: "timeout",
    FORGED: "suspicious",
    BY_HEART: "suspicious",
}


@pytest.mark.fault("Published cheats", "more than exists", only="more than exists")
@pytest.mark.fault("Published cheats", "counts that are only claimed", only="counts that are only claimed")
@pytest.mark.fault("Published cheats", "everything everywhere", only="everything everywhere")
@pytest.mark.fault("Published cheats", "one value throughout", only="one value throughout")
@pytest.mark.fault("Published cheats", "within a tolerance", only="within a tolerance")
@pytest.mark.fault("Published cheats", "a number that is none", only="a number that is none")
@pytest.mark.fault("Published cheats", "a stopped clock", only="a stopped clock")
@pytest.mark.fault("Published cheats", "answers rewritten in memory", only="answers rewritten in memory")
@pytest.mark.fault("Published cheats", "a number equal to everything", only="a number equal to everything")
@pytest.mark.fault("Published cheats", "a forged result", only="a forged result")
@pytest.mark.fault("Published cheats", "hidden instances by heart", only="hidden instances by heart")
@pytest.mark.parametrize(
    ("task", "how"), [(task, how) for how, names in PUBLISHED.items() for task, _ in zip(TASKS, names, strict=False)]
)
def test_a_published_cheat_is_caught_and_its_row_says_how(
    rows: dict[str, dict[str, dict[str, Any]]], task: str, how: str
) -> None:
    name = PUBLISHED[how][TASKS.index(task)]
    row = rows[task][name]
    assert row["outcome"] == OUTCOMES.get(name, "invalid_score"), row
    assert (row["score"], row["merit"], row["rank"], row["reward"]) == (None, None, None, -1.0)


@pytest.mark.parametrize("task", TASKS)
def test_no_program_of_the_corpus_gets_a_score_that_is_worth_anything(
    rows: dict[str, dict[str, dict[str, Any]]], task: str
) -> None:
    """The honest one does: it is the best of the run."""
    found = rows[task]
    cheats = corpus(load_task(task)).keys() - {HONEST}
    assert cheats <= found.keys()
    scored = {name: found[name]["score"] for name in cheats if found[name]["score"] is not None}
    assert scored.keys() == ({"stopped_clock"} if task == "eplb" else set())
    assert all(score < found[OWN]["score"] for score in scored.values())
    assert (found[HONEST]["outcome"], found[HONEST]["rank"]) == ("ok", 1)


def test_work_under_a_stopped_clock_is_counted(rows: dict[str, dict[str, dict[str, Any]]]) -> None:
    """What the program of that row returns is allowed, so it has a score: that of a slow program."""
    stopped, honest = rows["eplb"]["stopped_clock"], rows["eplb"][HONEST]
    assert stopped["outcome"] == "ok"
    assert stopped["score"] < honest["score"] / 2
