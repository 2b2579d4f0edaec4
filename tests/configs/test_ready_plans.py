"""The comments of the ready configs are what `pace plan` prints, and their runs fit on the cards that they name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.documentation.docs_plans import ROOT, configs

ON_CARDS = re.compile(r"^  model: models/", re.MULTILINE)


@pytest.mark.long
@pytest.mark.timeout(2400)  # a plan for each config, beside whatever else the machine does
def test_each_comment_is_what_the_plan_prints_and_each_run_fits() -> None:
    script = ROOT / "scripts" / "documentation" / "docs_plans.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_config_of_a_model_that_needs_a_card_has_a_plan() -> None:
    large = {file for file in (ROOT / "configs").rglob("*.yaml") if ON_CARDS.search(file.read_text())}
    assert large <= {Path(file) for file in configs()}
    assert len(large) >= 8
