"""What several threads are told of one another, and of what they made twice."""

import re

import pytest

from pace_async.config import PromptsConfig
from pace_async.context.questions import Prompts
from pace_async.context.table import list_levels
from pace_async.context.templates import Templates
from pace_async.context.value import context_of
from pace_async.events import LeaseOpened
from pace_async.search.islands import first_island
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState
from tests.support.contexts import PROGRAM, TASK, begun, evaluated, rollout

PROMPTS = Prompts(TASK, Templates.of(PromptsConfig()))


def section(state: RunState, island: int, name: str) -> str:
    """A section of the question to a thread whose lease opens now."""
    assert state.seed_program is not None
    own = state.islands.get(island) or first_island(island, state.seed_program)
    return PROMPTS.questions(state, own, own.members[0]).one(PROMPTS.budget).sections[name]


def opened(state: RunState, lease: int, island: int) -> None:
    apply(state, LeaseOpened(lease, island, 2, 0, 0.0, None))


def test_of_each_candidate_under_way_the_number_and_the_sentence_of_its_idea_are_told() -> None:
    state = begun()
    rollout(state, 1, score=1.5)
    rollout(state, 2, island=2, experiment="1. Sort first.\n2. Then place.", ends=False)
    rollout(state, 3, island=3, parent=1, idea=2, experiment="1. Let the loop end early.", ends=False)
    rollout(state, 4, island=4, ends=False)
    assert section(state, 1, "under_way").split("\n") == [
        "- candidate 2 from 0, idea 4: idea of lease 2",
        "- candidate 3 from 1, idea 2: other idea of lease 1",
        "- candidate 4 from 0, idea 10: idea of lease 4",
    ]
    assert "candidate 4" not in section(state, 4, "under_way") and "candidate 3" in section(state, 4, "under_way")


@pytest.mark.parametrize(("threads", "whole"), [(4, True), (12, False), (24, False)])
def test_every_thread_is_told_the_ideas_of_all_others_in_fewer_words_where_there_are_many(
    threads: int, whole: bool
) -> None:
    state = begun()
    told = "spread the load of the hottest expert over every GPU that has room for another replica"
    for lease in range(1, threads + 1):
        rollout(state, lease, island=lease, text=f"(refine) {lease} times {told}", ends=False)
    text = section(state, threads + 1, "under_way")
    assert re.findall(r"idea \d+: (\d+) times spread the load", text) == [str(n) for n in range(1, threads + 1)]
    assert text.count(told) == (threads if whole else 0)


def test_ideas_of_other_threads_for_which_there_is_no_room_are_counted() -> None:
    state = begun()
    for lease in range(1, 31):
        rollout(state, lease, island=lease, ends=False)
    lines = section(state, 31, "under_way").split("\n")
    assert len(lines) == 25 and lines[-1] == "6 more under way."


def test_a_list_that_is_cut_counts_the_rest_in_a_sentence() -> None:
    def item(_: int) -> str:
        return "- item"

    lines = [item] * 14
    assert (list_levels(lines)(0) or "").endswith("- item\n2 more.")
    assert (list_levels(lines, 1, "untried ideas are not shown")(0) or "").endswith(
        "3 more untried ideas are not shown."
    )


def test_an_idea_that_is_tried_out_or_covered_elsewhere_is_no_untried_one_and_is_not_counted() -> None:
    state = begun()
    for lease in (1, 2, 3):
        rollout(state, lease, score=1.0 + lease)
    assert re.findall(r"idea (\d+):", section(state, 1, "ideas"))[0] == "8"
    rollout(state, 4, island=2, idea=8, covers=(5,), ends=False)
    context = context_of(state, TASK.spec, state.islands[1], state.islands[1].members[0], 12)
    assert [idea.number for idea in context.ideas] == [10, 11, 2], "what was proposed beside it can be chosen at once"
    assert context.untried == 3
    apply(state, evaluated(4, 2, 0, PROGRAM, None))
    assert {idea.number for idea in state.memory.view(1).waiting(12)} == {2, 10, 11}, "its own ideas are untried"
    assert "more untried" not in section(state, 1, "ideas")


def test_an_idea_that_is_chosen_before_the_rollout_that_proposed_it_ends_is_tried_when_that_ends() -> None:
    state = begun()
    rollout(state, 1, score=1.5)
    rollout(state, 2, island=2, ends=False)
    assert "- idea 5: (explore) other idea of lease 2" in section(state, 1, "ideas")
    rollout(state, 3, idea=5, score=1.75)
    assert "idea 5:" not in section(state, 1, "ideas")
    apply(state, evaluated(2, 2, 0, PROGRAM, 1.25))
    assert {idea.number for idea in state.memory.view(1).waiting(12)} == {2, 7, 8}
    assert state.memory.view(1).of_idea[5] == [3]


def test_a_covered_idea_comes_back_where_the_machine_lost_the_experiment() -> None:
    state = begun()
    rollout(state, 1, score=1.5)
    rollout(state, 2, island=2, covers=(2,), ends=False)
    assert "idea 2:" not in section(state, 1, "ideas")
    advice = state.running[2].advice
    assert advice is not None
    state.memory.lost(advice)
    del state.running[2]
    assert "- idea 2: (explore) other idea of lease 1" in section(state, 1, "ideas")


def test_threads_that_are_asked_at_once_are_told_to_leave_different_numbers_of_ideas() -> None:
    state, told = begun(), list[str]()
    for lease in range(1, 5):
        told.append(section(state, lease, "under_way"))
        opened(state, lease, lease)
    assert told == [
        "",
        "Another thread is being asked the same now. So that you differ, pass over the first idea that comes to mind, "
        "and choose another.",
        *(
            f"{n} other threads are being asked the same now. So that you differ, pass over the first {n} ideas that "
            "come to mind, and choose another."
            for n in (2, 3)
        ),
    ]
    _advised(state, 2)
    apply(state, evaluated(2, 2, 0, PROGRAM, 1.25))
    again = section(state, 2, "under_way")
    assert again == (
        "3 other threads are being asked the same now. So that you differ, pass over the first idea that comes to "
        "mind, and choose another."
    )
    assert again not in told


def test_threads_that_are_asked_alone_are_told_nothing_and_the_fifth_as_the_first() -> None:
    state = begun()
    assert section(state, 4, "under_way") == ""
    opened(state, 1, 4)
    assert section(state, 5, "under_way") == "" and "2 ideas" in section(state, 3, "under_way")


def _advised(state: RunState, lease: int) -> None:
    other = begun()
    rollout(other, lease, island=lease, ends=False)
    advice = other.running[lease].advice
    assert advice is not None
    apply(state, advice)


def test_equal_programs_of_two_threads_are_called_equal_with_a_score_and_without() -> None:
    state = begun()
    made = PROGRAM.replace("import", "# the same\nimport", 1)
    rollout(state, 6, score=1.5, program=made)
    rollout(state, 7, island=2, score=1.4, program=made)
    rollout(state, 8, island=3, score=None, program=made)
    rollout(state, 9, island=4, score=1.5)
    table = section(state, 1, "results")
    assert "- 6 from 0: 1.5, +0.5, 0.25 s" in table
    assert "- 7 from 0: 1.4, +0.4 (-0.1), same program as 6, 0.25 s" in table
    assert "- 8 from 0: candidate_error, same program as 6 (ZeroDivisionError)" in table
    assert "- 9 from 0: 1.5, +0.5 (+0), exactly as 6, 0.25 s" in table


def test_a_row_says_the_gain_over_the_best_then_where_that_was_not_the_parent() -> None:
    state = begun()
    rollout(state, 1, score=0.5)
    rollout(state, 2, parent=1, score=0.75)
    rollout(state, 3, parent=0, score=1.5)
    rollout(state, 4, parent=2, score=2.0)
    rollout(state, 5, parent=4, score=1.75)
    lines = [line for line in section(state, 1, "results").split("\n") if " from " in line[:9]]
    rows = {line.split()[1]: line for line in lines}
    assert {number: line.partition(": ")[2].partition(", 0.25 s")[0] for number, line in rows.items()} == {
        "4": "2, +1.25 (+0.5)",
        "5": "1.75, -0.25",
        "3": "1.5, +0.5",
        "2": "0.75, +0.25 (-0.25)",
        "1": "0.5, -0.5",
    }
    assert "gain over the parent (over the best with a lower number), seconds" in section(state, 1, "results")


def test_threads_that_are_asked_at_once_leave_one_another_the_first_ideas() -> None:
    state = begun()
    for lease in (1, 2):
        opened(state, lease, lease)
    own = state.islands[2]
    text = PROMPTS.questions(state, own, own.members[0]).one(PROMPTS.budget).text
    assert "Another thread is being asked the same now. So that you differ, pass over the first idea" in text
