"""Ideas that leave the pools of islands, in whole runs: paid for, beside the search, and the same after a resume."""

from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.context.pools import LONGEST, changes_in
from pace_async.errors import CandidateFault
from pace_async.population.blobs import unpack_ids
from pace_async.providers.failures import CallFailed
from pace_async.runtime.run.core import Core
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from pace_async.state.pools import crossed, left_anywhere, view_of
from tests.doubles.implementers import NotesChat
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import REACH, Life, durations

LEFT = "select lease, idea, island, from_group, text from ideas_left order by lease, idea"
FAULTS = "select kind, count(*) from faults where stage = 'ideas' group by kind"


def configured(**changed: object) -> Config:
    given: dict[str, object] = {
        **{"search__memory": "island", "search__drop_ideas": 3, "search__threads": 4, "learner__group_size": 4},
        **{"stop__candidates": 32, "advisor__max_prompt_tokens": None, "implementer__max_tokens": 1000},
    }
    return settings(**(given | changed))


def life(folder: Path, config: Config) -> Life:
    return Life(folder, config, World(seed=3, durations=durations(3)), SimulatedFaults(reach=REACH))


def lived(run: Life, chat: NotesChat, every: int = 0) -> list[Core]:
    """The processes of a run that ends, each of so many commits."""
    cores: list[Core] = []

    def begun(core: Core) -> None:
        change_stages(core, notes=chat.writer(core))
        cores.append(core)

    while run.state != "done":
        run.live(every, begun=begun)
    return cores


def first_questions(run: Life) -> dict[int, str]:
    rows = run.rows("select lease, prompt_ids, prompt_tokens from advisor_calls where ordinal = 1 order by lease")
    return {lease: Bytes().decode(unpack_ids(ids, tokens)) for lease, ids, tokens in rows}


@pytest.mark.parametrize("backtracking", [False, True])
def test_what_has_left_is_shown_no_more_and_all_of_it_stays_in_the_rows(tmp_path: Path, backtracking: bool) -> None:
    chat = NotesChat()
    config = configured(learner__objective="none", search__backtracking=backtracking, search__action_interval=2)
    run = life(tmp_path, config)
    state = lived(run, chat)[-1].state
    rows = run.rows(LEFT)
    assert rows and {group for *_, group, _ in rows} == {None}
    assert run.rows("select count(*) from candidates where candidate > 0") == [(32,)]
    ideas = {number for view in state.memory.views.values() for number in view.ideas}
    assert {idea for _, idea, *_ in rows} <= left_anywhere(state) | {n for _, n, *_, text in rows if text}
    assert left_anywhere(state) <= ideas
    own: dict[int, int] = dict(run.rows("select lease, island from leases"))
    questions = first_questions(run)
    for island in state.islands.values():
        view, whole = view_of(state, island), state.memory.view(island.number, island.course)
        assert len(view.ideas) < len(whole.ideas) and len(view.tested) <= len(whole.tested)
        left = [(lease, idea) for lease, idea, of, _, text in rows if of == island.number and not text]
        own_leases = [lease for lease in questions if own[lease] == island.number]
        for newest, idea in left:
            for lease in [lease for lease in own_leases if lease > newest][
                2:
            ]:  # one had no experiment, one began beside the call
                assert f"\n- idea {idea}:" not in questions[lease]
    assert run.population.load().run_state.left == state.left


def test_an_island_that_takes_in_a_partners_ideas_takes_none_that_had_left_there(tmp_path: Path) -> None:
    run = life(tmp_path, configured(learner__objective="none", search__migration=0))
    state = lived(run, NotesChat())[-1].state
    gone = {number for fact in state.left[2] for number, text in fact.ideas if not text}
    crossed(state, 1, 2)
    state.memory.views[1].take(state.memory.views[2], state.last_lease)
    before = state.left[1]
    crossed(state, 1, 2)
    assert state.left[1] == before, "what it knows it takes in once"
    assert gone and gone <= {*state.memory.views[1].ideas}
    later = {number for number in gone if state.memory.views[1].of_idea.get(number)}
    assert not {*view_of(state, state.islands[1]).ideas} & (gone - later)


def test_new_words_stand_in_the_place_of_the_old_ones(tmp_path: Path) -> None:
    run = life(tmp_path, configured(learner__objective="none"))
    lived(run, NotesChat(seconds=1.0))
    words = [text for *_, text in run.rows(LEFT) if text]
    assert words and any(text in question for text in words for question in first_questions(run).values())


@pytest.mark.long
@pytest.mark.parametrize("every", [5, 13])
def test_behind_a_barrier_a_run_that_is_killed_anywhere_is_told_the_same(tmp_path: Path, every: int) -> None:
    config = configured(staleness__mode="sync")
    whole, killed = life(tmp_path / "whole", config), life(tmp_path / "killed", config)
    state = lived(whole, NotesChat(seconds=0.1))[-1].state
    again = lived(killed, NotesChat(seconds=0.1), every)[-1].state
    assert whole.rows(LEFT) and killed.rows(LEFT) == whole.rows(LEFT)
    assert again.left == state.left == killed.population.load().run_state.left
    assert first_questions(killed) == first_questions(whole)
    groups = {lease: group for lease, _, _, group, _ in whole.rows(LEFT)}
    assert all(group is not None and group > (lease - 1) // 4 + 1 for lease, group in groups.items())


def test_a_call_that_fails_drops_nothing_and_the_next_ideas_ask_again(tmp_path: Path) -> None:
    faults = {1: CallFailed("server_error", "500"), 2: CandidateFault("unparsed", "no numbers")}
    run, chat = life(tmp_path, configured(learner__objective="none", search__threads=1)), NotesChat(faults=faults)
    (core,) = lived(run, chat)
    assert dict(run.rows(FAULTS)) == {"server_error": 1, "unparsed": 1}
    assert len(core.state.left[1]) == len(chat.questions) - 2 > 0
    asked = [question.count("\nIdea ") for question in chat.questions[:3]]
    assert asked[0] < asked[1] < asked[2], "it is asked again only when the pool has grown"
    assert run.population.load().spend_usd == pytest.approx(0.001 * (len(chat.questions) - 2))


@pytest.mark.long
def test_a_run_is_the_same_whether_or_not_a_model_that_never_answers_is_asked(tmp_path: Path) -> None:
    slow, none = life(tmp_path / "slow", configured()), life(tmp_path / "none", configured(search__drop_ideas=0))
    lived(slow, NotesChat(seconds=1e6))
    none.live()
    assert none.rows(LEFT) == []
    ends = "select candidate, at from candidates order by candidate"
    assert slow.rows(ends) == none.rows(ends)


@pytest.mark.parametrize(
    ("answer", "changes"),
    [
        ("Leave: 3, 7", ((3, ""), (7, ""))),
        ("Leave: 5\nI change my mind.\n**Leave:** 3", ((3, ""),)),
        (
            "- Leave: idea 7\nIdea 5:  rings,\tfrom 3 to 5 \nIdea 7: it leaves\nIdea 9: unknown",
            ((5, "rings, from 3 to 5"), (7, "")),
        ),
        (f"Leave: 3\nIdea 5: {'x' * 999}", ((3, ""), (5, "x" * LONGEST))),
        ("Idea 5: before the line\nLeave: 3\nIdea 7:", ((3, ""),)),
    ],
)
def test_an_answer_names_what_leaves_and_may_say_anew_what_stays(answer: str, changes: object) -> None:
    assert changes_in(answer, [3, 5, 7]) == changes


@pytest.mark.parametrize("answer", ["", "Leave:", "Leave: none", "Leave: 4", "Leave: 3, 4", "Leave: 3, 5, 7", "3, 5"])
def test_an_answer_without_ideas_with_others_or_with_all_is_none(answer: str) -> None:
    with pytest.raises(CandidateFault, match="unparsed"):
        changes_in(answer, [3, 5, 7])
