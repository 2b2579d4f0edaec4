"""The comments of the ready configs are what `pace plan` prints, and their runs fit on the cards that they name."""

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.documentation.docs_plans import ROOT, SHAPES, configs
from tests.support.command_line import PACE

ON_CARDS = re.compile(r"^  model: models/", re.MULTILINE)


@pytest.mark.long
@pytest.mark.timeout(2400)  # a plan for each config, beside whatever else the machine does
@pytest.mark.nightly
def test_each_comment_is_what_the_plan_prints_and_each_run_fits() -> None:
    script = ROOT / "scripts" / "documentation" / "docs_plans.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_config_of_a_model_that_needs_a_card_has_a_plan() -> None:
    large = {file for file in (ROOT / "configs").rglob("*.yaml") if ON_CARDS.search(file.read_text())}
    assert large <= {Path(file) for file in configs()}
    assert len(large) >= 8


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.timeout(600)  # on a busy machine
@pytest.mark.parametrize(
    ("card", "said"),
    [(None, ""), (24, "It fits with a second such card for the engine and ")],
    ids=["it fits", "it does not"],
)
def test_the_dearest_plan_takes_less_than_a_minute_of_processor(card: int | None, said: str) -> None:
    """That of the kind of model that takes longest to count, at the longest call, and without any limit on lengths
    where settings are looked for with which it would fit."""
    [command] = re.findall(r"`pace (plan [^`]+)`", (ROOT / "configs" / "qwen3.5_4b_h200.yaml").read_text())
    words = [str(ROOT / word) if word.endswith(".yaml") else word for word in command.split()]
    if card is not None:
        words = [*words[: words.index("--card")], "--card", str(card), "--set", "learner.max_length=null"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([PACE, *words], cwd=SHAPES, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (int(card is not None), "")
    assert said in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60
