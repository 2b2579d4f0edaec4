"""Repair within a run: what fails is repaired, recorded and paid for, and a crash pays for nothing twice."""

from collections import Counter
from pathlib import Path

import pytest

from pace_async.simulate.stages import World
from tests.doubles.evaluators import HIDDEN
from tests.doubles.implementers import ScriptedChat
from tests.support.scripted_runs import Run, block, configured
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import Life, durations


def clumsy(question: str, number: int) -> str:
    """Answers by the number in the experiment: first no code, a syntax error, an exception, an exception and then no
    code, or never any code. Each answer repairs the shown error."""
    kind = number % 5
    if "could not be used" in question:
        return "no code" if kind == 4 else block(f"start = {number}")
    if "does not compile" in question or "was tried out" in question:
        return "no code" if kind == 3 and "could not" not in question else block(f"start = {number}")
    first = {0: "no code", 1: block("def (:"), 2: block(f"start = wrong + {number}"), 4: "no code"}
    return first.get(kind, block(f"start = wrong + {number}"))


OUTCOMES = "select outcome, count(*) from candidates where candidate > 0 group by outcome order by outcome"
TRIES = "select number, outcome, evaluation, program is not null, answer from implementer_tries where lease = {}"


def lease_of(run: Run, kind: int) -> int:
    """A lease whose experiment names a number of that kind."""
    found = run.rows("select lease, description from experiments order by lease")
    return next(lease for lease, description in found if int(description.split()[-1]) % 5 == kind)


def test_a_failed_program_is_repaired_and_recorded_and_the_last_outcome_is_rewarded(tmp_path: Path) -> None:
    run = Run(tmp_path, configured(stop__candidates=30), ScriptedChat(clumsy)).live()
    assert run.state == "done"
    assert run.rows(TRIES.format(lease_of(run, 0))) == [
        (1, "no_code_block", None, 0, "no code"),
        (2, "ok", None, 1, None),
    ]
    assert run.rows(TRIES.format(lease_of(run, 1))) == [(1, "syntax_error", None, 1, None), (2, "ok", None, 1, None)]
    assert run.rows(TRIES.format(lease_of(run, 2))) == [(1, "ok", "candidate_error", 1, None), (2, "ok", None, 1, None)]
    assert [row[1:3] for row in run.rows(TRIES.format(lease_of(run, 3)))] == [
        ("ok", "candidate_error"),
        ("no_code_block", None),
        ("ok", None),
    ]
    assert [row[1] for row in run.rows(TRIES.format(lease_of(run, 4)))] == ["no_code_block"] * 3
    lost = run.rows("select count(*), sum(reward) from candidates where candidate > 0 and score is null")[0]
    assert lost[0] > 0 and lost[1] == -lost[0]
    assert Counter(dict(run.rows(OUTCOMES)))["ok"] == 30 - lost[0]


def test_a_question_with_a_context_calls_things_by_its_own_names_when_it_asks_again(tmp_path: Path) -> None:
    chat = ScriptedChat(clumsy)
    Run(tmp_path, configured(search__memory="run"), chat).live()
    again = [question for question in chat.questions if "Carry out the specification." not in question]
    begun = [question for question in again if "It is the program of your last try, with " in question]
    assert 0 < len(begun) < len(again)
    assert all("experiment" not in question.rpartition("# Request")[2] for question in again)
    assert all("carries out the specification" in question for question in begun if "Mend" in question)


def test_what_an_author_corrects_is_remembered_with_the_experiment_and_rebuilt_from_the_rows(tmp_path: Path) -> None:
    kinds = dict[int, int]()

    def correcting(question: str, number: int) -> str:
        kind = kinds.setdefault(number, len(kinds) % 3)
        if "could not be used" in question or kind == 0:
            return f"Deviation: {number} + 1, not {number}\n{block(f'start = {number} + 1')}"
        return "Deviation: none is possible" if kind == 1 else block(f"start = {number}")

    run = Run(tmp_path, configured(search__memory="run"), ScriptedChat(correcting)).live()
    numbers = {lease: int(each.experiment.split()[-1]) for lease, each in run.tested.items()}
    assert {kinds[number] for number in numbers.values()} == {0, 1, 2}
    for lease, number in numbers.items():
        nothing = kinds[number] == 2 or run.tested[lease].outcome == "unchanged"  # an experiment may be drawn twice
        wanted = "" if nothing else f"Deviation: {number} + 1, not {number}"
        assert run.tested[lease].deviation == wanted
    assert sum(bool(tested.deviation) for tested in run.tested.values()) >= 5
    assert run.population.load().run_state.memory.view(1).tested == run.tested


def test_each_try_is_paid_for_and_closes_its_reservation(tmp_path: Path) -> None:
    run = Run(tmp_path, configured(), ScriptedChat(clumsy)).live()
    tries = run.rows("select count(*) from implementer_tries")[0][0]
    assert tries == run.asked > 15
    assert run.rows("select count(*), count(ordinal) from reservations")[0] == (tries, tries)
    assert run.rows("select sum(cost_usd) from implementer_calls")[0][0] == pytest.approx(0.001 * tries)
    joined = "select count(*) from implementer_tries t join implementer_calls c using (run_id, lease, ordinal)"
    assert run.rows(joined + " where t.outcome = c.outcome")[0][0] == tries


def test_without_repair_each_experiment_has_one_answer_and_one_evaluation(tmp_path: Path) -> None:
    off = configured(implementer__repair__compile_tries=1, implementer__repair__evaluate_tries=1)
    run = Run(tmp_path, off, ScriptedChat(clumsy)).live()
    assert run.asked == 15
    assert run.rows("select count(*), max(number) from implementer_tries")[0] == (15, 1)
    assert {outcome for outcome, _ in run.rows(OUTCOMES)} == {"candidate_error", "not_implemented"}


def test_a_program_that_is_too_slow_is_not_tried_again(tmp_path: Path) -> None:
    run = Run(tmp_path, configured(), ScriptedChat(lambda _question, number: block(f"slow = {number}"))).live()
    assert run.rows(OUTCOMES) == [("timeout", 15)]
    assert run.asked == len(run.judge.programs) == 15


def test_a_repair_that_gives_the_parent_back_earns_nothing(tmp_path: Path) -> None:
    """Otherwise failing first would be a way to be paid for the parent's score."""

    def gives_up(question: str, _number: int) -> str:
        return block("start = 0") if "was tried out" in question else block("start = wrong")

    run = Run(tmp_path, configured(), ScriptedChat(gives_up)).live()
    assert run.rows(OUTCOMES) == [("unchanged", 15)]
    assert run.rows("select distinct reward from candidates where candidate > 0") == [(-1.0,)]


def test_the_place_of_an_evaluators_failure_is_in_no_prompt_and_no_row(tmp_path: Path) -> None:
    chat = ScriptedChat(
        lambda question, number: block("start = 1" if "was tried out" in question else f"trips = {number}")
    )
    run = Run(tmp_path, configured(), chat).live()
    assert any("was tried out" in question for question in chat.questions)
    assert not any(HIDDEN in text for text in (*chat.questions, *run.dump()))


@pytest.mark.long
def test_a_run_cut_off_at_any_commit_pays_for_no_recorded_try_twice_and_ends_the_same(tmp_path: Path) -> None:
    """A call that was in flight is paid for and made again: so a process is cut off where none was."""
    one = configured(search__threads=2, learner__group_size=2, learner__k=1, stop__candidates=6)
    whole = Run(tmp_path, one, ScriptedChat(clumsy)).live()
    expected, asked = whole.dump(), whole.asked
    between = 0
    for last in range(2, whole.commits, 6):
        broken = Run(tmp_path, one, ScriptedChat(clumsy)).live(last)
        assert broken.state == "interrupted"
        if broken.was_cut_off_in_a_call:
            continue
        between += 1
        broken.live()
        assert broken.state == "done"
        assert broken.dump() == expected, f"commit {last}"
        assert broken.asked == asked
    assert between > 4


def test_simulated_stages_give_the_same_rows_with_repair_and_without(tmp_path: Path) -> None:
    """They stand where the catalogue stands, which would answer the same again."""
    dumps: list[list[str]] = []
    for tries in (1, 3):
        repair = {"implementer__repair__compile_tries": tries, "implementer__repair__evaluate_tries": tries}
        config = settings(seed=4, stop__candidates=24, **repair)
        run = Life(tmp_path, config, World(seed=4, durations=durations(4))).live()
        dumps.append(run.dump(tables=["runs"]))
    assert dumps[0] == dumps[1]
