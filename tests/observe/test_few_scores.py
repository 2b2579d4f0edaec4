"""Why hardly any candidate of a run has a score is said in one sentence with a remedy, on every screen."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import anyio
import pytest

from pace_async.config import StopConfig
from pace_async.errors import CandidateFault
from pace_async.events import Cause, Evaluated, Outcome, RunStateChanged, cause_of
from pace_async.events.causes import DID_NOT_END
from pace_async.implement.base import Experiment
from pace_async.implement.catalogue import CatalogImplementer
from pace_async.observe.few_scores import ENOUGH, few_scores
from pace_async.observe.history import view_of
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.plain import PlainDisplay
from pace_async.observe.search_sections import failing_or_bottleneck
from pace_async.observe.summary import closing_words
from pace_async.population.reading.reader import open_readonly
from pace_async.programs.languages import BUILD_FAILED
from pace_async.report.facts import gather
from pace_async.report.page import page
from pace_async.search.state import Member
from tests.support.catalogues import TASK
from tests.support.observe_facts import fold_all
from tests.support.population_facts import HEADER, advised, evaluated, fresh, opened, rollout

CAUSES: Sequence[Cause] = get_args(Cause)
DETAIL: dict[Cause, tuple[Outcome, str]] = {
    "unparsed": ("unparsed", "expected 9 lines, got 2"),
    "cut_off": ("unparsed", f"propose {DID_NOT_END} 256 tokens"),
    "unknown_idea": ("not_implemented", "the experiment must name one mechanism, and names none"),
    "not_implemented": ("not_implemented", "no_code_block: the answer holds neither a code block nor an edit"),
    "unchanged": ("unchanged", "layout is hex already"),
    "build_failed": ("candidate_error", f"{BUILD_FAILED}initial.cpp:1:1: error: no"),
    "crashed": ("candidate_error", "NameError: no"),
    "timeout": ("timeout", "stopped after 10.0 s"),
    "out_of_memory": ("out_of_memory", ""),
    "output_overflow": ("output_overflow", ""),
    "invalid_score": ("invalid_score", "a tour must hold each point once"),
    "suspicious": ("suspicious", ""),
    "below_threshold": ("below_threshold", ""),
    "pruned": ("pruned", "stopped at step 2 with 0.5, where earlier programs had 0.75"),
}
WORDS: dict[Cause, tuple[str, str]] = {
    "unparsed": ("format", "without --advisor"),
    "cut_off": ("cut off at its longest length", "raise advisor.max_tokens"),
    "unknown_idea": ("names no edit of the task's catalogue", "without --advisor"),
    "not_implemented": ("no program could be made", "another model by --implementer"),
    "unchanged": ("the same as its parent", "more options"),
    "build_failed": ("could not be built", "coding_requirements"),
    "crashed": ("ended with an error", "seed program work with every option"),
    "timeout": ("too long", "raise timeout_s"),
    "out_of_memory": ("out of memory", "raise memory_mb"),
    "output_overflow": ("too much", "raise output_mb"),
    "invalid_score": ("evaluator refused", "coding_requirements"),
    "suspicious": ("fresh instances", "more of them"),
    "below_threshold": ("cheap stage", "threshold"),
    "pruned": ("fell behind", "evaluation.prune"),
}


def failed(lease: int, cause: Cause) -> Evaluated:
    outcome, detail = DETAIL[cause]
    return replace(evaluated(lease, score=None), outcome=outcome, detail=detail)


def ran(*ended: Evaluated) -> RunView:
    return fold_all(RunView(header=HEADER), [RunStateChanged("running", "", 0.0), *ended])


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_has_its_sentence_with_a_remedy(cause: Cause) -> None:
    view = ran(*(failed(lease, cause) for lease in range(1, ENOUGH + 1)))
    assert view.causes == {cause: ENOUGH}
    found = few_scores(view.candidates, view.scored, view.causes, "runs/mine-1")
    assert found is not None
    assert found.cause == cause
    what, cure = WORDS[cause]
    assert found.sentence.startswith("None of 16 candidates has a score, 16 times because ")
    before, _, after = found.sentence.partition(": ")
    assert what in before
    assert cure in after


def test_nothing_is_said_of_a_young_run_or_one_with_two_scores() -> None:
    assert few_scores(ENOUGH - 1, 0, {"timeout": ENOUGH - 1}) is None
    assert few_scores(400, 2, {}) is None
    causes: dict[Cause, int] = {"timeout": 8, "crashed": 7}
    one = few_scores(ENOUGH, 1, causes)
    assert one is not None
    assert one.sentence.startswith("One of 16 candidates has a score, 8 times because the program took too long: ")


def test_the_most_frequent_cause_is_said() -> None:
    causes: dict[Cause, int] = {"crashed": 5, "unknown_idea": 9, "unparsed": 2}
    found = few_scores(16, 0, causes)
    assert found is not None
    assert found.cause == "unknown_idea"


@pytest.mark.parametrize("text", ["nothing to try", "layout to nowhere from hex."])
async def test_what_the_catalogue_implementer_says_of_an_unknown_edit_is_known_as_that(text: str) -> None:
    parent = Member(0, TASK.program, 1.0)
    with pytest.raises(CandidateFault) as raised:
        await CatalogImplementer(TASK).implement(TASK, parent, Experiment(1, "", text))
    assert cause_of("not_implemented", raised.value.detail) == "unknown_idea"


def test_no_screen_says_to_search_further_when_nothing_scores(tmp_path: Path) -> None:
    view = ran(*(failed(lease, "unknown_idea") for lease in range(1, 17)), evaluated(17))
    said = "\n".join(closing_words(fold_all(view, [RunStateChanged("done", "candidates", 9.0)]), tmp_path, 10.0))
    assert "One of 17 candidates has a score, 16 times because the experiment names no edit" in said
    assert "search further" not in said
    assert "pace resume" not in said
    assert "pace task check circle_packing" in said
    assert "would help" not in said
    assert "One of 17 candidates" in failing_or_bottleneck(view, 9.0, 60).plain
    enough = fold_all(view, [evaluated(18), RunStateChanged("done", "candidates", 9.0)])
    assert "search further" in "\n".join(closing_words(enough, tmp_path, 10.0))


def test_the_plain_display_says_it_once_at_sixteen_candidates_and_at_a_resume(tmp_path: Path) -> None:
    file = tmp_path / "screen"
    with file.open("w") as stream:
        output = Output(stream)
        display, view = PlainDisplay(output), ran()
        for lease in range(1, 40):
            event = failed(lease, "timeout")
            view = fold_all(view, [event])
            display.take(event, view)
        again = PlainDisplay(output)
        anyio.run(again.refresh, view, 1.0)
        anyio.run(output.drain, 1.0)
    said = [line.strip() for line in file.read_text().splitlines() if "has a score" in line]
    assert [line.split(",")[0] for line in said] == [f"None of {n} candidates has a score" for n in (16, 39)]


async def test_the_rows_give_what_was_seen(tmp_path: Path) -> None:
    ended = [failed(lease, CAUSES[lease % len(CAUSES)]) for lease in range(1, 30)]
    async with fresh(tmp_path) as store:
        for one in ended:
            await store.commit(opened(one.lease), advised(one.lease), one)
        record = await store.load(HEADER.name)
        assert (await view_of(record, StopConfig(), store)).causes == ran(*ended).causes
    with open_readonly(str(tmp_path / "population.db")) as reader:
        status = reader.status()
        assert (status["scored"], status["causes"]) == (0, ran(*ended).causes)
        assert "None of 29 candidates has a score" in page(gather(reader))
    (tmp_path / "more").mkdir()
    async with fresh(tmp_path / "more") as store:
        await store.commit(*rollout(1), *rollout(2), opened(3), advised(3), failed(3, "timeout"))
        record = await store.load(HEADER.name)
        assert (await view_of(record, StopConfig(), store)).causes == {}
