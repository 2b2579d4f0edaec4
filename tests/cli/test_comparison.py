"""pace compare: runs side by side, as a table, a drawing, JSON and a picture."""

import json
import re
from xml.etree import ElementTree

import pytest

from pace_async.installing import install_line
from tests.support.changed_runs import OTHER, SEED, WORSE, changed_runs
from tests.support.command_line import Shell
from tests.support.finished_runs import poison

RUN = "circle_packing-1"
UNPRICED = "pace: free asked a model whose price is not known, so it has no USD to compare by: take candidates.\n"


pytestmark = pytest.mark.usefixtures("finished_run")


def another(shell: Shell, name: str, *statements: str) -> None:
    changed_runs(shell.folder / "runs", {name: statements})


BEST = "(select candidate from candidates where merit is not null order by merit desc, candidate limit 1)"


def fresh(score: float) -> str:
    """The best program gets this score at a fresh seed, which confirms it."""
    return f"insert into fresh_scores values (1, {BEST}, 1, 5, 9.0, 'ok', {score}, {score}, 1, 0.1, null, null)"


def paid(usd: float) -> str:
    """Every candidate took one call, which cost so much."""
    call = f"lease, 1, 'model', 'ok', 1, 1, {usd}, 0.1, at, 'implementer'"
    return f"insert into implementer_calls select 1, {call} from candidates where lease is not null"


def test_seeds_are_one_arm_and_the_setting_that_differs_is_named(shell: Shell) -> None:
    another(shell, "seed", SEED, WORSE)
    another(shell, "other", OTHER)
    said = shell.pace("compare", RUN, "seed", "other")
    assert said.code == 0
    rows = [line.split() for line in said.out.splitlines()]
    assert [row[:3] for row in rows[1:4]] == [["A", RUN, "0"], ["A", "seed", "9"], ["B", "other", "0"]]
    assert "learner.k=2" in said.out and "learner.k=4" in said.out
    assert "40 candidates" in said.out


def test_json_has_the_same_with_intervals_and_the_curves(shell: Shell) -> None:
    another(shell, "seed", SEED, WORSE)
    another(shell, "third", OTHER)
    another(shell, "fourth", OTHER, SEED, WORSE)
    found = json.loads(shell.pace("compare", RUN, "seed", "third", "fourth", "--json").out)
    best = json.loads(shell.pace("best", RUN, "--json").out)["score"]
    assert found["runs"][0]["best_score"] == found["runs"][0]["curve"][-1][1] == best
    assert [arm["seeds"] for arm in found["arms"]] == [2, 2]
    assert found["arms"][0]["mean"] == pytest.approx(best - 0.05)
    [difference] = found["differences"]
    assert (difference["arm"], difference["against"]) == ("B", "A")
    assert difference["difference"] == pytest.approx(0.0)
    assert difference["low"] == pytest.approx(-difference["high"])
    assert difference["told_apart"] is False


@pytest.mark.long
@pytest.mark.parametrize(("name", "begins"), [("curve.svg", b"<?xml"), ("curve.PNG", b"\x89PNG")])
def test_the_curves_are_drawn_into_a_file_and_hostile_names_do_no_harm(shell: Shell, name: str, begins: bytes) -> None:
    another(shell, "seed", SEED, WORSE)
    poison(shell.folder / "runs" / "seed")
    url = f"sqlite:///{shell.folder}/runs/seed/population.db"
    said = shell.pace("compare", RUN, url, "--plot", name)
    assert said.code == 0, said.err
    assert "\x1b" not in said.out
    drawn = (shell.folder / name).read_bytes()
    assert drawn.startswith(begins)
    if name.endswith(".svg"):
        assert b"<script" not in drawn
        ElementTree.fromstring(drawn)


def test_another_task_and_another_kind_of_file_are_refused_in_a_sentence(shell: Shell) -> None:
    another(shell, "else", "update runs set task = 'knapsack'")
    for arguments, says in (((RUN, "else"), "different tasks"), ((RUN, "--plot", "curve.pdf"), ".svg or .png")):
        said = shell.pace("compare", *arguments)
        assert (said.code, len(said.err.splitlines())) == (2, 1)
        assert says in said.err


def test_without_matplotlib_the_plot_is_refused_and_the_table_is_not(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    said = shell.pace("compare", RUN, "--plot", "curve.svg")
    assert (said.code, install_line("plot") in said.err) == (2, True)
    assert shell.pace("compare", RUN).code == 0


def test_a_folder_stands_for_all_its_runs(shell: Shell) -> None:
    another(shell, "seed", SEED, WORSE)
    of_folder = json.loads(shell.pace("compare", "runs", "--json").out)
    assert [each["run"] for each in of_folder["runs"]] == [RUN, "seed"]
    another(shell, "mine/mine-s9", SEED)
    by_name = json.loads(shell.pace("compare", "mine", "--json").out)
    assert [each["run"] for each in by_name["runs"]] == ["mine-s9"]
    (shell.folder / "empty").mkdir()
    said = shell.pace("compare", "empty")
    assert (said.code, said.err) == (2, "pace: There is no run in the folder 'empty'.\n")


@pytest.mark.long
def test_the_best_programs_are_compared_at_fresh_seeds_too(shell: Shell) -> None:
    assert "fresh" not in shell.pace("compare", RUN).out
    for name, score, arm in (("a", 2.0, ()), ("b", 2.5, (SEED,)), ("c", 1.0, (OTHER,)), ("d", 1.25, (OTHER, SEED))):
        another(shell, name, fresh(score), *arm)
    found = json.loads(shell.pace("compare", "a", "b", "c", "d", "--json").out)
    assert [run["fresh_score"] for run in found["runs"]] == [2.0, 2.5, 1.0, 1.25]
    of_a, of_b = (arm["fresh"] for arm in found["arms"])
    assert (of_a["seeds"], of_a["mean"], of_b["mean"]) == (2, 2.25, 1.125)
    assert of_a["low"] < 2.0 and of_a["high"] > 2.5
    assert shell.pace("compare", "a", "b", "c", "d", "--plot", "curve.png").code == 0
    [row] = found["differences"]
    assert row["fresh"]["difference"] == -1.125
    assert row["fresh"]["low"] < row["fresh"]["difference"] < row["fresh"]["high"]
    assert row["difference"] == 0.0
    said = shell.pace("compare", "a", "b", "c", "d").out
    assert "at fresh seeds" in said and "of the search" in said and "2.25 " in said


def test_a_noisy_runs_fresh_score_is_that_of_the_program_that_it_calls_the_best(shell: Shell) -> None:
    another(
        shell,
        "noisy",
        "update runs set noisy = 1",
        "insert into fresh_scores select 1, candidate, 1, 5, 9.0, 'ok', -candidate, 0, 1, 0.1, null, null "
        "from candidates where score is not null and candidate > 0",
    )
    found = json.loads(shell.pace("compare", "noisy", "--json").out)
    best = json.loads(shell.pace("best", "noisy", "--json").out)
    assert found["runs"][0]["fresh_score"] == best["fresh_score"] == -best["candidate"]


def test_runs_are_compared_by_time_and_money(shell: Shell) -> None:
    another(shell, "dear", OTHER, paid(0.5))
    another(shell, "cheap", paid(0.25))
    hours = json.loads(shell.pace("compare", "dear", "cheap", "--by", "hours", "--json").out)
    places = [place for place, _ in hours["runs"][0]["curve"]]
    assert places == sorted(places) and hours["by"] == "hours"
    rows = shell.pace("export", "dear", "--json").out
    assert hours["place"] == pytest.approx((max(row["at"] for row in json.loads(rows)) - _begun(shell)) / 3600)
    pause = "insert into run_states select 1, number + {0}, '{1}', '', at + {0} from run_states where number = 1"
    another(
        shell,
        "paused",
        pause.format(2, "running"),
        "update run_states set number = 9 where state = 'done'",
        pause.format(1, "interrupted"),
    )
    paused = json.loads(shell.pace("compare", "paused", "--by", "hours", "--json").out)
    assert paused["place"] == pytest.approx(hours["place"] - 1 / 3600)
    money = json.loads(shell.pace("compare", "dear", "cheap", "--by", "usd", "--json").out)
    dear, cheap = money["runs"]
    assert (dear["length"], cheap["length"], money["place"]) == (2 * cheap["length"], cheap["length"], cheap["length"])
    assert [place for place, _ in dear["curve"]] == [2 * place for place, _ in cheap["curve"]]
    said = shell.pace("compare", "dear", "cheap", "--by", "usd")
    assert f"after {money['place']:.3g} USD" in said.out
    another(shell, "free", paid(0.0))
    refused = shell.pace("compare", "free", "cheap", "--by", "usd")
    assert (refused.code, refused.err) == (2, UNPRICED)


def _begun(shell: Shell) -> float:
    statement = "select at from run_states where state = 'running'"
    return json.loads(shell.pace("db", "sql", "dear", statement, "--json").out)[0]["at"]


def test_it_says_after_how_many_candidates_an_arm_was_as_good_as_another_at_its_end(shell: Shell) -> None:
    another(shell, "worse", OTHER, WORSE)
    found = json.loads(shell.pace("compare", "worse", RUN, "--json").out)
    worse, better = found["runs"]
    reached = next(place for place, score in better["curve"] if score >= worse["best_score"])
    assert better["reaches_first"] == found["differences"][0]["reaches"] == reached
    assert worse["reaches_first"] == worse["curve"][-1][0]
    assert found["differences"][0]["is_reached"] is None
    sentence = f"B reaches the final mean of A after {reached} candidates ({100 * reached / 40:.0f} %)."
    assert sentence in shell.pace("compare", "worse", RUN).out


def test_spikes_and_the_spread_of_rewards_stand_in_the_table(shell: Shell) -> None:
    another(
        shell,
        "spiky",
        "update groups set state = 'trained', entropy = 1.0, grad_norm = 1.0",
        "update groups set grad_norm = 2.5 where group_number = "
        "(select max(group_number) from groups where state = 'trained')",
    )
    row, few = json.loads(shell.pace("compare", "spiky", RUN, "--json").out)["runs"]
    assert (few["groups_trained"], few["entropy_spikes"], few["grad_norm_spikes"]) == (7, None, None)
    assert re.search(rf"{RUN} +7 +too few groups +too few groups +[\d.]+ → [\d.]+\n", shell.pace("compare", RUN).out)
    assert (row["entropy_spikes"], row["grad_norm_spikes"]) == (0, 1)
    first, last = row["reward_spread"]
    assert f"{first:.3g} → {last:.3g}" in shell.pace("compare", "spiky").out
