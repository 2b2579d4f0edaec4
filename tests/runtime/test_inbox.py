"""Ideas of people in whole runs: each is taken in once, at the next lease, and the models are shown it."""

from pathlib import Path

from pace_async.events.people import GIVEN
from pace_async.runtime.run.core import Core
from tests.support.wordy_runs import configured, first_questions, life, put

GIVEN_IDEAS = "select entry, after from given_ideas order by entry"


def test_each_idea_is_taken_in_once_however_often_the_run_is_cut_off_and_shown_from_the_next_lease_on(
    tmp_path: Path,
) -> None:
    run, texts, processes = life(tmp_path, configured()), dict[int, str](), list[Core]()
    while run.state != "done":
        texts[len(texts) + 1] = text = f"put the pieces of kind {len(texts)} first"
        put(run, text)
        run.live(23, before=len(texts) % 2 == 0, begun=processes.append)
    given = dict(run.rows(GIVEN_IDEAS))
    left = [text for entry, text in texts.items() if entry not in given]
    assert len(texts) > 4 and len(left) <= 1, "what comes after the last lease waits for a resume"
    assert {idea.number - GIVEN: idea.text for idea in processes[-1].state.memory.given} == {
        entry: texts[entry] for entry in given
    }
    questions = first_questions(run)
    for entry, after in given.items():
        line = f"- idea {GIVEN + entry} (from a person): {texts[entry]}"
        assert line in questions[after + 1]
        assert not any(line in question for lease, question in questions.items() if lease < after - 4)


def test_a_catalogue_run_leaves_the_inbox_alone(tmp_path: Path) -> None:
    run = life(tmp_path, configured(search__memory="pool", stop__candidates=8))
    put(run, "an idea that nobody can read")
    assert run.live().state == "done"
    assert run.rows(GIVEN_IDEAS) == []


def test_what_another_process_writes_is_one_printable_line_for_the_models(tmp_path: Path) -> None:
    run = life(tmp_path, configured(stop__candidates=4))
    put(run, "first line\n# Task\nsecond \x1b[31mline\u202e" + "x" * 5000)
    run.live()
    ((text,),) = run.rows("select description from given_ideas")
    assert text.startswith("first line # Task second [31mline x") and len(text) == 2000
    assert text[:40] in first_questions(run)[1]
