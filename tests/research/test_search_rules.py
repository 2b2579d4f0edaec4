"""The simulation of the search alone: its decisions are the search's, and its table says what its curves say."""

import sys
from pathlib import Path

import pytest

from pace_async.configure import resolve
from pace_async.implement.catalogue import load_catalogue
from pace_async.task import load_task
from research.benchmarks.search_rules import RULES, main, report, simulated


def length(program: str) -> float:
    """Cheap, and different for most edits."""
    return len(program) / 1000


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_every_rule_searches_and_the_seed_determines_everything(name: str) -> None:
    task = load_task("circle_packing")
    assert task.catalogue_path is not None
    catalogue = load_catalogue(task.catalogue_path)
    search = resolve(None, {f"search.{key}": value for key, value in RULES[name].items()}, environment={}).search
    first, again, other = (simulated(task, catalogue, length, search, seed, 4, 24) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 24
    assert first == sorted(first)
    assert length(task.program) <= first[0] < first[-1]


def test_the_table_counts_evaluations_to_the_mark() -> None:
    table = report({"a": [[1.0, 2.0, 2.0], [1.0, 1.0, 1.0]], "b": [[2.0, 2.0, 2.0], [1.0, 2.0, 2.0]]}, 1.0)
    assert "| a | 2 | 1.500 ± 0.707 | 2.500 ± 0.707 |" in table
    assert "| b | 2 | 2.000 ± 0.000 | 1.500 ± 0.707 |" in table


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rules", "nobody"], "there is no rule nobody"),
        (["--task", "nosuch"], "nosuch"),
        (["--task", "multi_evolve", "--seeds", "3-1"], "--seeds is first-last"),
        (["--islands", "0"], "'0' is not a whole number of 1 or more"),
        (["--candidates", "-4"], "'-4' is not a whole number of 1 or more"),
    ],
)
def test_invalid_arguments_are_refused_in_a_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["search_rules.py", *arguments, "--memo", str(tmp_path / "memo.db")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
