"""Notes in whole runs: each page once, paid for, beside the search, and the same for all rollouts of a group."""

import re
from pathlib import Path
from typing import Any

import pytest

from pace_async.config import Config
from pace_async.errors import InfrastructureFault
from pace_async.population.blobs import unpack_ids
from pace_async.providers.failures import CallFailed
from pace_async.runtime.run.core import Core
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from tests.doubles.implementers import NotesChat
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import REACH, Life, durations

PAGES = "select number, candidates, from_group, text from notes_pages order by number"
CANDIDATES = "select count(*) from candidates where candidate > 0"
SEEN = re.compile(r"Written by a model after (\d+) candidates, which is data:\n```text\n(.*?)\n```", re.DOTALL)


def configured(**changed: object) -> Config:
    given: dict[str, object] = {
        **{"search__memory": "run", "search__notes_every": 4, "search__threads": 4, "learner__group_size": 4},
        **{"stop__candidates": 24, "advisor__max_prompt_tokens": None, "implementer__max_tokens": 1000},
    }
    return settings(**(given | changed))


def life(folder: Path, config: Config, faults: SimulatedFaults | None = None) -> Life:
    return Life(folder, config, World(seed=3, durations=durations(3)), faults or SimulatedFaults(reach=REACH))


def noted(chat: NotesChat) -> Any:
    def begun(core: Core) -> None:
        change_stages(core, notes=chat.writer(core))

    return begun


def shown(run: Life) -> dict[int, tuple[int, str] | None]:
    """By lease, the page in its first question: after how many candidates it was written, and its text."""
    found: dict[int, tuple[int, str] | None] = {}
    for lease, ids, tokens in run.rows(
        "select lease, prompt_ids, prompt_tokens from advisor_calls where ordinal = 1 order by lease"
    ):
        page = SEEN.search(Bytes().decode(unpack_ids(ids, tokens)))
        found[lease] = None if page is None else (int(page[1]), page[2])
    return found


def test_each_page_is_written_once_also_over_a_resume(tmp_path: Path) -> None:
    config, chat = configured(learner__objective="none"), NotesChat(seconds=1.0)
    run = life(tmp_path, config)
    while run.state != "done":
        run.live(17, begun=noted(chat))
    assert run.rows(CANDIDATES) == [(24,)]
    pages = run.rows(PAGES)
    assert [number for number, *_ in pages] == list(range(1, len(pages) + 1))
    assert [candidates // 4 for _, candidates, *_ in pages] == [1, 2, 3, 4, 5, 6]
    assert {from_group for *_, from_group, _ in pages} == {None}
    texts = dict(shown(run))
    first = min(lease for lease, page in texts.items() if page is not None)
    assert all(page is not None for lease, page in texts.items() if lease > first + 4)
    assert {page for page in texts.values() if page} <= {(candidates, text) for _, candidates, _, text in pages}


def test_a_page_that_failed_is_a_fault_and_no_more_and_a_resume_writes_it(tmp_path: Path) -> None:
    config = configured(learner__objective="none", stop__candidates=9)
    chat = NotesChat(faults={1: CallFailed("server_error", "500"), 2: InfrastructureFault("secret_in_answer", "no")})
    run = life(tmp_path, config).live(begun=noted(chat))
    assert run.state == "done" and run.rows(CANDIDATES) == [(9,)] and run.rows(PAGES) == []
    assert run.rows("select kind, lease is null from faults where stage = 'notes'") == [
        ("server_error", 0),
        ("secret_in_answer", 0),
    ]
    assert run.rows("select outcome, cost_usd from implementer_calls where role = 'notes'") == [
        ("server_error", 0.0),
        ("secret_in_answer", 0.0),
    ]
    run.config = configured(learner__objective="none", stop__candidates=11)
    run.live(begun=noted(chat))
    assert run.state == "done"
    assert [(number, candidates) for number, candidates, *_ in run.rows(PAGES)] == [(1, 9)]


@pytest.mark.long
@pytest.mark.parametrize("sync", [True, False])
def test_no_thread_waits_for_notes(tmp_path: Path, sync: bool) -> None:
    config = configured(staleness__mode="sync") if sync else configured()
    slow = life(tmp_path / "slow", config).live(begun=noted(NotesChat(seconds=1e6)))
    none = life(tmp_path / "none", config).live()
    assert slow.state == none.state == "done"
    ends = "select candidate, at from candidates order by candidate"
    assert slow.rows(ends) == none.rows(ends)
    assert slow.time > 1e6 > none.time


def test_behind_a_barrier_all_rollouts_of_a_group_see_the_same_page(tmp_path: Path) -> None:
    run = life(tmp_path, configured(staleness__mode="sync")).live(begun=noted(NotesChat(seconds=2.0)))
    assert [(candidates, group) for _, candidates, group, _ in run.rows(PAGES)] == [(4 * n, n + 1) for n in range(1, 7)]
    pages, seen = {candidates: text for _, candidates, _, text in run.rows(PAGES)}, shown(run)
    for lease in range(1, 25):
        group = (lease - 1) // 4 + 1
        candidates = 4 * (group - 2)
        assert seen[lease] == ((candidates, pages[candidates]) if group > 2 else None)


@pytest.mark.long
def test_behind_a_barrier_a_run_that_is_killed_anywhere_is_told_the_same(tmp_path: Path) -> None:
    config = configured(staleness__mode="sync", stop__candidates=16)
    whole = life(tmp_path / "whole", config).live(begun=noted(NotesChat(seconds=2.0)))
    for every in (5, 8, 13):
        run = life(tmp_path / f"killed {every}", config)
        while run.state != "done":
            run.live(every, begun=noted(NotesChat(seconds=2.0)))
        assert run.rows(PAGES) == whole.rows(PAGES)
        assert shown(run) == shown(whole)


def test_what_notes_cost_is_in_the_spend_of_the_run(tmp_path: Path) -> None:
    run = life(tmp_path, configured(learner__objective="none")).live(begun=noted(NotesChat()))
    paid = "select count(*), sum(cost_usd) from implementer_calls where role = 'notes' and outcome = 'ok'"
    assert run.rows(paid) == [(6, pytest.approx(0.006))]
    assert run.population.load().spend_usd == run.population.load().run_state.spend_usd == pytest.approx(0.006)
    assert run.rows("select count(*), sum(ordinal is null) from reservations where role = 'notes'") == [(6, 0)]


def test_a_page_that_does_not_fit_into_the_budget_is_not_asked_for_and_ends_nothing(tmp_path: Path) -> None:
    chat = NotesChat()
    run = life(tmp_path, configured(learner__objective="none", stop__budget=0.007)).live(begun=noted(chat))
    assert run.state == "done" and run.rows(CANDIDATES) == [(24,)]
    spent, asked = run.population.load().spend_usd, len(chat.questions)
    assert 0 < asked < 6 and spent == pytest.approx(0.001 * asked) and spent <= 0.007
    assert run.rows("select kind, count(*) from faults where stage = 'notes' group by kind") == [("unaffordable", 1)]


def test_whoever_stops_a_run_waits_for_no_page(tmp_path: Path) -> None:
    chat = NotesChat()

    def begun(core: Core) -> None:
        noted(chat)(core)
        core.stop("interrupted")

    run = life(tmp_path, configured(learner__objective="none")).live(begun=begun)
    assert run.state == "interrupted" and chat.questions == []
