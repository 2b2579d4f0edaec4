"""`pace best` says by which score the best was chosen, and what is equal to it."""

import json
from pathlib import Path

import anyio
import pytest

from pace_async.events import RunHeader
from tests.support.claimed_scores import CLAIMED, begun
from tests.support.command_line import Shell
from tests.support.population_facts import HEADER


def make(shell: Shell, header: RunHeader) -> Path:
    folder = shell.folder / "runs" / "demo"
    folder.mkdir(parents=True)
    anyio.run(begun, folder, header)
    return folder


def test_the_best_of_claimed_scores_is_the_confirmed_one_with_its_equals(shell: Shell) -> None:
    folder = make(shell, CLAIMED)
    said = shell.pace("best", "demo").out
    assert "candidate" in said and "2.42, from a second evaluation, by which the best is chosen" in said
    assert "4, 1, 2, within 0.17: so much do two evaluations of one program differ" in said
    found = json.loads(shell.pace("best", "demo", "--json").out)
    assert (found["candidate"], found["fresh_score"], found["equal"]) == (3, 2.42, [4, 1, 2])
    assert found["noise"] == pytest.approx(0.165)
    report = shell.pace("report", "demo")
    assert report.code == 0, report.err
    (page,) = folder.glob("*.html")
    text = page.read_text(encoding="utf-8")
    assert "the best in a second evaluation, by which it is chosen" in text
    assert "others that the noise of that evaluation does not tell from it" in text


def test_the_best_of_other_runs_has_no_equals(shell: Shell) -> None:
    make(shell, HEADER)
    said = shell.pace("best", "demo").out
    assert "2.41, on instances that no other score comes from" in said
    assert "equal" not in said
