"""A run that begins with what another run has learned: what it is told, what it counts, and that it resumes alike."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.config import Config, SearchConfig
from pace_async.errors import UsageError
from pace_async.events import LearnedBefore
from pace_async.events.people import GIVEN
from pace_async.population.reading.inbox import idea_texts
from pace_async.population.reading.reader import open_readonly
from pace_async.runtime.run.core import Core
from pace_async.runtime.start.beginning import begun_with
from pace_async.runtime.start.learned_before import learned_before, learned_by
from pace_async.simulate.runs import TINY_TASK
from pace_async.simulate.virtual import run_virtually
from tests.doubles.implementers import NotesChat
from tests.support.catalogues import TASK, with_catalogue
from tests.support.changed_stages import change_stages
from tests.support.command_line import search
from tests.support.comparing_states import differences
from tests.support.finished_runs import make_run
from tests.support.virtual_runs import Life
from tests.support.wordy_runs import configured, first_questions, life


def noted(core: Core) -> None:
    change_stages(core, notes=NotesChat().writer(core))


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> LearnedBefore:
    config = configured(search__notes_every=8)
    run = life(tmp_path_factory.mktemp("before"), config).live(begun=noted)
    state = run.population.load().run_state
    assert state.best is not None
    found = learned_by("before", state, state.best.candidate, config, TINY_TASK, 0.5)
    assert found is not None and found.notes and len(found.ideas) > 10 and found.failures and not found.edits
    return found


def begun(folder: Path, config: Config, learned: LearnedBefore) -> Life:
    run = life(folder, config)
    run_virtually(lambda: run.population.commit(learned))
    return run


@pytest.mark.long
def test_models_are_told_what_the_other_run_learned_as_of_another_run(tmp_path: Path, learned: LearnedBefore) -> None:
    cores = list[Core]()
    run = begun(tmp_path, configured(), learned).live(begun=cores.append)
    question = first_questions(run)[1]
    assert "# What an earlier run tried\nRun before tried " in question
    best = learned.results[0]
    assert f"\n- {best.candidate} from {best.parent}: " in question
    assert f"only its candidate {learned.first} is here, as candidate 0" in question
    assert "Written by a model in the earlier run, with its numbers and scores, which is data:" in question
    assert f"- idea {GIVEN - 1} (of the earlier run): " in question
    assert "Nothing has been tried yet" in question
    state = cores[-1].state
    assert state.evaluated == 40 and state.best is not None
    assert state.best.score == max(score for (score,) in run.rows("select score from candidates where score not null"))
    assert [number for number, *_ in run.rows("select number from notes_pages")] == []


def test_its_untried_ideas_can_be_tried_and_have_their_words(tmp_path: Path, learned: LearnedBefore) -> None:
    run = begun(tmp_path, configured(), learned).live()
    chosen = {idea for (idea,) in run.rows("select idea from experiments where idea > 8000000")}
    assert chosen and chosen <= set(range(GIVEN - len(learned.ideas), GIVEN))
    words = dict(run.rows("select idea, description from given_ideas"))
    assert [words[number] for number in sorted(words)] == list(learned.ideas)
    found = run_virtually(lambda: run.population.read(lambda connection: idea_texts(connection, 1, [*chosen, 1, 2])))
    assert {number: found[number] for number in chosen} == {number: words[number] for number in chosen}


@pytest.mark.long
def test_a_program_that_the_other_run_made_is_named_in_the_results(tmp_path: Path, learned: LearnedBefore) -> None:
    cores = list[Core]()
    run = begun(tmp_path / "first", configured(), learned).live(begun=cores.append)
    made = {digest for (digest,) in run.rows("select program_hash from candidates where candidate > 0")}
    again = replace(learned, programs=dict.fromkeys(sorted(digest for digest in made if digest), 33))
    run = begun(tmp_path / "again", configured(), again).live()
    assert any(", same program as 33 of before" in text for text in first_questions(run).values())


@pytest.mark.long
@pytest.mark.parametrize("every", [5, 13])
def test_a_run_that_is_killed_anywhere_ends_as_the_one_that_is_not(
    tmp_path: Path, learned: LearnedBefore, every: int
) -> None:
    config = configured(
        staleness__mode="sync",
        learner__objective="grpo",
        learner__group_size=4,
        search__memory="run",
        stop__candidates=16,
    )
    whole = begun(tmp_path, config, learned).live()
    run, cores = begun(tmp_path, config, learned), list[Core]()
    while run.state != "done":
        run.live(every, begun=cores.append)
    assert first_questions(run) == first_questions(whole)
    dumps = [each.dump(times=False, tables=["run_states", "faults"], columns=["detail"]) for each in (run, whole)]
    assert dumps[0] == dumps[1]
    assert differences(cores[-1].state, run.population.load().run_state) == []


BANDIT = ("run", "circle_packing", "--advisor", "bandit", "--display", "none")


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of a bandit. Tests copy it."""
    folder = tmp_path_factory.mktemp("counting")
    said = search(folder, [*BANDIT, "--candidates", "4", "--run-dir", "before"])
    assert said.code == 0, said.err
    return folder / "before"


@pytest.mark.long
@pytest.mark.nightly
def test_a_bandit_goes_on_with_the_counts_of_another_one_which_may_be_deleted_then(
    counting: Path, tmp_path: Path
) -> None:
    shutil.copytree(counting, tmp_path / "before")
    said = search(tmp_path, [*BANDIT, "--candidates", "2", "--run-dir", "after", "--start-from", "before"])
    assert said.code == 0, said.err
    with open_readonly(tmp_path / "before" / "population.db") as before:
        counted = before.record().run_state.visible.edits
    shutil.rmtree(tmp_path / "before")
    said = search(tmp_path, ["resume", "after", "--candidates", "3", "--display", "none"])
    assert said.code == 0, said.err
    with open_readonly(tmp_path / "after" / "population.db") as after:
        edits = after.record().run_state.visible.edits
    assert sum(tries.gains + tries.others for tries in counted.values()) == 4
    assert sum(tries.gains + tries.others for tries in edits.values()) == 7


def test_an_at_takes_programs_only_and_another_catalogue_is_refused_in_one_sentence(
    counting: Path, tmp_path: Path
) -> None:
    named = {"advisor": {"model": "bandit"}, "search": {"start_from": str(counting)}}
    config = Config.model_validate(named)
    found = learned_before(config, TASK)
    assert (
        found is not None and found.in_words == f"what run before learned: counts of {len(found.edits)} kinds of edits"
    )
    only = config.search.model_copy(update={"start_from": f"{counting}@best:3"})
    assert learned_before(config.model_copy(update={"search": only}), TASK) is None
    with pytest.raises(UsageError, match=r"has counted edits that the catalogue of 'circle_packing' has not \(.* to "):
        learned_before(config, with_catalogue(tmp_path, 3, 2))


def test_a_run_with_other_objectives_or_in_another_language_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "before")
    turned = replace(TASK, spec=TASK.spec.model_copy(update={"direction": "minimize"}))
    with pytest.raises(UsageError, match="has other objectives than 'circle_packing' has now"):
        begun_with(SearchConfig(start_from=str(run)), turned)
    with closing(sqlite3.connect(run / "population.db")) as database, database:
        database.execute("update runs set task_suffix = '.cpp'")
    with pytest.raises(UsageError, match="has programs in another language than 'circle_packing' has now"):
        begun_with(SearchConfig(start_from=str(run)), TASK)
