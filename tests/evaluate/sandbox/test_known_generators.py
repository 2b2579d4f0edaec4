"""Programs that know a task's public generator: they make the hidden instances and their answers again, and every set
of fresh instances that can be predicted. Each claims a perfect score, and is caught by instances whose seed no program
can know."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from pace_async.task import Task, load_task
from tests.evaluate.sandbox.cheats import OWN, run_corpus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
SETTINGS = {"data": "synthetic", "users": 30, "history": 24, "width": 8, "blocks": 1, "epochs": 1}

ANSWER = """
import hashlib


def words(seed):
    found = split(watched(seed, 30), 24, 30, seed)
    return base64.b64encode(found.item.astype("<u2").tobytes()).decode(), found.truth.tolist()


def answered(instance, truth):
    users = len(base64.b64decode(instance["lengths"])) // 2
    if truth is None or len(truth) != users or max(truth) > instance["catalogue"]:
        return popular(instance)
    scores = np.zeros((users, instance["catalogue"]), "<f2")
    scores[np.arange(users), np.array(truth) - 1] = 1.0
    return base64.b64encode(scores.tobytes()).decode()
"""
TOLD = """
def recommend(instance):
    return answered(instance, words(instance.get("seed", 0))[1])
"""
"""Makes the instance again from the seed that it states, or else from the one that is in the configuration."""
FORESEEN = """
def derived(number):
    return int.from_bytes(hashlib.sha256(f"0/fresh/{number}".encode()).digest()[:8]) >> 1


def recommend(instance):
    for seed in (0, *map(derived, range(1, 5))):
        items, truth = words(seed)
        if items == instance["items"]:
            return answered(instance, truth)
    return popular(instance)
"""
"""Looks among the hidden set and the fresh sets that follow from the run's seed for the one that it was given."""
CARRIED = """
def recommend(instance):
    return answered(instance, TRUTHS.get(hashlib.sha256(instance["items"].encode()).hexdigest()))
"""
"""Has the answers to those sets in its text."""


def knowing(task: Task) -> dict[str, str]:
    """Program by name. Each answers with what is popular where it does not know better."""
    generator = "".join((task.folder / f"{name}.py").read_text() for name in ("interactions", "watching"))
    generator = generator.replace("from interactions import Log\n", "")
    popular = (task.folder / "popularity.py").read_text().replace("def recommend", "def popular")
    told, foreseen, answer = (f"{popular}\n{generator}\n{ANSWER}{text}" for text in (TOLD, FORESEEN, ""))
    known: dict[str, Any] = {"__name__": "candidate"}
    exec(answer + FORESEEN, known)
    sets = [known["words"](seed) for seed in (0, *map(known["derived"], range(1, 5)))]
    truths = {known["hashlib"].sha256(items.encode()).hexdigest(): truth for items, truth in sets}
    carried = f"{popular}\n{ANSWER}\nTRUTHS = {truths!r}\n{CARRIED}"
    return {"told the seed": told, "foresees the seeds": foreseen, "carries the answers": carried}


@pytest.mark.long
@pytest.mark.fault("Programs as weapons", "knowledge of a public generator is worth nothing on fresh instances")
def test_a_program_that_knows_the_generator_claims_a_full_score_and_is_not_confirmed(tmp_path: Path) -> None:
    task = load_task("kuairec")
    popular = (task.folder / "popularity.py").read_text()  # needs no torch
    given = {f"evaluation__settings__{name}": value for name, value in SETTINGS.items()}
    programs = knowing(task)
    rows = anyio.run(lambda: run_corpus(replace(task, program=popular), tmp_path, programs, **given))
    assert rows[OWN]["score"] < 0.5
    for name in programs:
        assert (rows[name]["outcome"], rows[name]["score"], rows[name]["reward"]) == ("suspicious", None, -1.0), name
        assert rows[name]["detail"].startswith("claimed 1, which fresh instances do not confirm"), rows[name]["detail"]
