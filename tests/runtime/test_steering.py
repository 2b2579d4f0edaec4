"""What people say of a run while it searches, in whole runs: each word is taken in once, at the next lease."""

from pathlib import Path

import pytest

from pace_async.runtime.run.core import Core
from tests.support.virtual_runs import Life
from tests.support.wordy_runs import configured, first_questions, life, put

WORDS = "select entry, subject, number, text, after from steering order by entry"


def untried(run: Life, core: Core) -> list[int]:
    """Numbers of untried ideas, the latest last."""
    (view,) = core.state.memory.views.values()
    return [number for _, number in view.untried]


def chosen(run: Life) -> dict[int, int]:
    """The idea that each lease tried out."""
    return dict(run.rows("select lease, idea from experiments where idea is not null"))


def test_a_vetoed_idea_is_neither_shown_as_untried_nor_tried_from_the_next_lease_on(tmp_path: Path) -> None:
    run, cores = life(tmp_path, configured(search__untried_kept=100)), list[Core]()
    run.live(60, begun=cores.append)
    vetoed = untried(run, cores[-1])
    for number in vetoed:
        put(run, "veto", "idea", number)
    run.live()
    words = run.rows(WORDS)
    assert [row[:4] for row in words] == [(place + 1, "idea", number, "veto") for place, number in enumerate(vetoed)]
    (after,) = {row[4] for row in words}
    later = {lease: text for lease, text in first_questions(run).items() if lease > after}
    assert len(later) > 10
    for text in later.values():
        assert not any(f"- idea {number}:" in text for number in vetoed)
        assert f"- not idea {vetoed[-1]} (ruled out by a person): " in text
    assert not {idea for lease, idea in chosen(run).items() if lease > after} & {*vetoed}


@pytest.mark.long
def test_a_pinned_idea_stands_first_until_the_word_is_taken_back(tmp_path: Path) -> None:
    run, cores = life(tmp_path, configured(search__untried_kept=2, stop__candidates=200)), list[Core]()
    run.live(60, begun=cores.append)
    first, second, *_ = untried(run, cores[-1])
    for number in (second, first):
        put(run, "pin", "idea", number)
    put(run, "try something with a person's touch")
    run.live(40)
    put(run, "", "idea", second)
    run.live()
    questions, words = first_questions(run), run.rows(WORDS)
    assert [row[1:4] for row in words] == [("idea", second, "pin"), ("idea", first, "pin"), ("idea", second, "")]
    after = words[0][4]
    lines = [line for line in questions[after + 1].split("\n") if line.startswith("- idea ")]
    assert [line.partition(":")[0] for line in lines[:2]] == [
        f"- idea {second} (pinned by a person)",
        f"- idea {first} (pinned by a person)",
    ]
    assert not any(f"idea {second} (pinned" in text for lease, text in questions.items() if lease > words[2][4])


@pytest.mark.long
@pytest.mark.parametrize("before", [True, False])
def test_each_word_is_taken_in_once_however_often_the_run_is_cut_off(tmp_path: Path, before: bool) -> None:
    run, said, cores = life(tmp_path, configured()), 0, list[Core]()
    while run.state != "done":
        said += 1
        put(run, ("pin", "veto", "")[said % 3], "idea", 1 + said // 2)
        run.live(23, before=before, begun=cores.append)
    words = run.rows(WORDS)
    assert said - 1 <= len(words) <= said and [row[0] for row in words] == list(range(1, len(words) + 1))
    last = {number: text for _, _, number, text, _ in words}
    assert cores[-1].state.steering.ideas == {number: text for number, text in last.items() if text}


def test_rows_that_say_nothing_are_passed_over(tmp_path: Path) -> None:
    run = life(tmp_path, configured(stop__candidates=8))
    for text, subject, number in (
        ("stop", "idea", 3),
        ("pin", "engine", 3),
        ("pin", "idea", None),
        ("veto", "idea", -4),
    ):
        put(run, text, subject, number)  # pyright: ignore[reportArgumentType]
    assert run.live().state == "done"
    assert run.rows(WORDS) == [] and run.rows("select * from given_ideas") == []
