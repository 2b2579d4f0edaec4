"""The first hour on a card runs from end to end without one, and its page claims nothing that was not measured."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pace_async.configure import resolve
from pace_async.learn.settings import TrainerConfig
from pace_async.runtime.children.cards import Cards
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from scripts.benchmarks.toys import write_llama
from scripts.first_hour import bare
from scripts.first_hour.__main__ import attempted, main, refuse_untrained, step
from scripts.first_hour.bare import PARTS, figures_of
from scripts.first_hour.table import (
    NO_CARD,
    NOT_MEASURED,
    PAGE,
    WHAT,
    Row,
    in_markdown,
    rows_of,
    with_table,
)
from tests.support.simulated_runs import settings, simulated

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_table_in_its_place() -> None:
    page = PAGE.read_text("utf-8")
    empty = [Row(part, what, NOT_MEASURED) for part, what in WHAT]
    if NOT_MEASURED in page:
        assert with_table(page, "Nothing has been measured on a card.", empty) == page
    filled = with_table(page, "`a command` on a day: a card.", rows_of("step", "1.02", "900"))
    assert "| step | tokens a second that a step trains | 900 |" in filled
    assert with_table(filled, "Nothing has been measured on a card.", empty).count("| step |") == 2
    with pytest.raises(ValueError, match="no place"):
        with_table("# A page\n", "", empty)


def test_a_part_that_fails_says_why_in_each_of_its_rows() -> None:
    def fails() -> list[Row]:
        raise ValueError("the card\nis on fire")

    rows = attempted(("push", "probe"), fails)
    assert [row.result for row in rows] == ["failed: the card is on fire"] * 4
    assert in_markdown(rows).count("failed") == 4


def test_a_step_is_measured_with_the_limits_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_llama(tmp_path, vocab=16, width=8, layers=1)
    config = resolve(None, {"advisor.model": str(tmp_path), "learner.max_move": 0.07}, environment={})
    commands: list[list[str]] = []

    def done(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, json.dumps({"tokens": 8, "seconds": 2.0, "peak": None}), "")

    monkeypatch.setattr(subprocess, "run", done)
    assert step(config, Cards((), ()))[1].result == "4"
    settings = TrainerConfig.from_json(commands[0][-1])
    assert (settings.limits.k3, settings.learning_rate) == (0.07, config.learner.learning_rate)


@pytest.mark.long
@pytest.mark.parametrize("faults", [SimulatedFaults(), SimulatedFaults(unparsed_every=1)])
async def test_a_run_that_trained_nothing_is_a_failure(tmp_path: Path, faults: SimulatedFaults) -> None:
    async with simulated(tmp_path, settings(stop__candidates=16), World(seed=3), faults) as run:
        await drive(run.core)
    if faults.unparsed_every == 1:
        with pytest.raises(ValueError, match="--sync: no group was trained, and 2 were skipped"):
            refuse_untrained("--sync", tmp_path)
    else:
        refuse_untrained("--sync", tmp_path)


def test_a_config_that_does_not_exist_is_one_sentence_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["first_hour.sh", str(tmp_path / "none.yaml")])
    assert main() == 2
    out, err = capsys.readouterr()
    assert (out, len(err.strip().splitlines())) == ("", 1)


def test_a_part_that_does_not_exist_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["first_hour.sh --bare", "steps", "stairs"])
    with pytest.raises(SystemExit) as ended:
        bare.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert "no such part: stairs" in err


SHAPE = {
    "model_type": "qwen3",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
    "pad_token_id": 0,
}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Two take four times as long for so small a model."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(usual)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("one_thread")
@pytest.mark.nightly
def test_the_learners_side_is_measured_without_vllm(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SHAPE))
    given = Namespace(shape=tmp_path, lengths=[(256, 128)], gib=0.01, seconds=2.0, updates=2)
    of: dict[str, Any] = {}
    for part in set(PARTS) - {"shared"}:
        room = tmp_path / part
        room.mkdir()
        of[part] = list(figures_of(part, given, room))
    assert {part: len(figures) for part, figures in of.items()} == {"steps": 1, "repeats": 2, "limits": 7, "learns": 3}
    assert all(figure["tokens_a_second"] > 0 and figure["measured_gib"] is None for figure in of["steps"])
    assert all(figure["repeats"] and figure["full_length_equal"] for figure in of["repeats"])
    smallest, largest = of["limits"][1], of["limits"][3]  # in float32, at rates of 1e-6 and 1e-4
    assert 0 < smallest["moved_k3"] < largest["moved_k3"]
    assert [figure["limits"] for figure in of["learns"]] == [True, True, False]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.nightly
def test_parts_are_processes_of_their_own_and_print_their_figures(tmp_path: Path) -> None:
    command = ["bash", "scripts/first_hour.sh", "--bare", "shared", "--room", str(tmp_path), "--gib", "0.01"]
    environment = {**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert [(figure["part"], figure["right"]) for figure in figures] == [("shared", True)] * 3


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.nightly
def test_it_runs_on_a_cpu_from_end_to_end(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("search: {threads: 2}\nlearner: {group_size: 2, k: 1, max_length: 512}\n")
    done = subprocess.run(
        # With two rollouts a group about a third is skipped, because their rewards are equal: of twelve some train.
        ["bash", "scripts/first_hour.sh", str(config), "--updates", "12", "--samples", "3"],
        cwd=ROOT,
        env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line.split("|")[1:4] for line in done.stdout.splitlines()[2:]]
    results = {(part.strip(), what.strip()): result.strip() for part, what, result in rows}
    assert results.keys() == set(WHAT), done.stderr
    assert done.returncode == 0, done.stdout
    skipped = [what for (_, what), result in results.items() if result == NO_CARD]
    assert skipped == [
        "memory of a real step, measured over counted",
        "seconds of a push over NCCL, and of them paused",
        "seconds of a push from the learner's memory (ipc), and of them paused",
    ]
    measured = [result for (part, _), result in results.items() if part not in ("doctor", "plan")]
    assert all(result == NO_CARD or result[0].isdigit() for result in measured)
