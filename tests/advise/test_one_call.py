"""`advisor.calls: one`: a rollout is one call, and its idea is its experiment."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from tokenizers import Tokenizer

from pace_async.advise.advisor import Advice, Sampling, ServedAdvisor, advise
from pace_async.advise.binding import bound_tokenizer
from pace_async.advise.catalogue_prompts import answer_to_propose
from pace_async.advise.catalogue_wording import FIRST_IDEA, CatalogueWording
from pace_async.advise.prompts import ProseWording
from pace_async.advise.wording import Detail, Question, Wording
from pace_async.answers import parse_first, parse_only
from pace_async.errors import CandidateFault, UsageError
from pace_async.runtime.children.advisor_folder import PACKAGED
from pace_async.runtime.children.catalogue_reading import options_of, refuse_unless_read
from pace_async.search.state import Idea, Member, SearchContext
from pace_async.task import load_task
from tests.doubles.engines import ScriptedEngine
from tests.support.fitness import UP
from tests.support.simulated_runs import settings

TASK = load_task("circle_packing")
OPTIONS = {"layout": ("rings", "hex", "spiral"), "turn": ("0", "5", "10")}
PARENT = Member(3, '# EVOLVE-BLOCK-START\nlayout = "hex"\nturn = 5\n# EVOLVE-BLOCK-END\n', 1.0)
CONTEXT = SearchContext(PARENT, PARENT, (Idea(4, "turn to 0 helps."),), next_idea=5)
PROSE = "Hypothesis: Rings pack better.\nExperiment description: Set the layout to rings."
FIRST = answer_to_propose([("layout", "rings")])


class InLetters(CatalogueWording):
    """For an engine whose tokens are letters."""

    def only(self, context: SearchContext, detail: Detail, draw: Callable[[], random.Random]) -> Question:
        asked = super().only(context, detail, draw)
        assert asked.cut_after == FIRST_IDEA
        return replace(asked, cut_after=len(FIRST))


CATALOGUE = InLetters(OPTIONS, UP)


def advised(wording: Wording, answer: str, max_tokens: int = 500) -> tuple[Advice, ScriptedEngine]:
    engine = ScriptedEngine(answer, "never asked for")
    sampling = Sampling(seed=1, max_tokens=max_tokens, one_call=True)

    async def main() -> Advice:
        return await advise(ServedAdvisor(engine), wording, CONTEXT, lease=5, sampling=sampling)

    return anyio.run(main), engine


def test_one_answer_in_prose_is_an_idea_and_its_experiment() -> None:
    advice, engine = advised(ProseWording(TASK), PROSE)
    assert [call.purpose for call in advice.calls] == ["propose"]
    assert "Propose one idea" in engine.prompts[0]
    assert (advice.idea, advice.experiment, advice.unparsed) == (5, "Set the layout to rings.", None)
    assert [idea.description for idea in advice.pool] == ["turn to 0 helps.", "Rings pack better."]
    assert advice.next_idea == 6


def test_the_first_idea_of_a_reader_is_carried_out_on_the_parent_as_it_is() -> None:
    advice, engine = advised(CATALOGUE, FIRST)
    assert engine.prompts == [CATALOGUE.propose(CONTEXT, Detail(), lambda: random.Random(0)).text]
    assert (advice.idea, advice.experiment) == (5, "layout to rings from hex.")


def test_an_idea_of_the_pool_keeps_its_number() -> None:
    advice, _ = advised(CATALOGUE, answer_to_propose([("turn", "0")]))
    assert (advice.idea, advice.next_idea) == (4, 5)
    assert [note.known for note in advice.notes] == [True]


def test_an_answer_that_is_cut_off_after_its_first_idea_is_whole_and_one_in_prose_is_not() -> None:
    advice, _ = advised(CATALOGUE, answer_to_propose([("layout", "rings"), ("turn", "0")]))
    assert advice.calls[0].text == FIRST
    assert advice.experiment == "layout to rings from hex."
    advice, _ = advised(ProseWording(TASK), PROSE, max_tokens=len(PROSE) - 1)
    assert "did not end" in (advice.unparsed or "")


@pytest.mark.parametrize(
    ("wording", "answer"),
    [
        (ProseWording(TASK), "Hypothesis: only this."),
        (ProseWording(TASK), "Experiment description: first.\n" + PROSE),
        (ProseWording(TASK), PROSE + "\nHypothesis: another."),
        (ProseWording(TASK), ""),
        (CATALOGUE, "Idea 2\nHypothesis: layout to rings helps."),
        (CATALOGUE, answer_to_propose([("layout", "5")])),
        (CATALOGUE, answer_to_propose([("colour", "red")])),
        (CATALOGUE, "layout to rings"),
    ],
)
def test_an_answer_without_an_idea_ends_the_rollout_and_keeps_its_tokens(wording: Wording, answer: str) -> None:
    advice, _ = advised(wording, answer)
    assert len(advice.calls) == 1
    assert answer.startswith(advice.calls[0].text)
    assert (advice.idea, advice.experiment) == (None, None)
    assert advice.unparsed


def test_marks_of_a_chat_model_change_no_meaning() -> None:
    assert parse_only("Sure!\n\n**Hypothesis:** a.\n**Experiment description:** b.\nGood luck.") == ("a.", "b.")
    with pytest.raises(CandidateFault):
        parse_only("Hypothesis: a.\nand more\nExperiment description: b.")


@pytest.mark.parametrize("task", ["circle_packing", "columnar", "expression_passes"])
def test_the_first_idea_of_a_bound_reader_fits_in_the_tokens_after_which_its_answer_is_cut(task: str) -> None:
    options = options_of("reader", load_task(task))
    reader: Any = cast("Any", Tokenizer).from_str(bound_tokenizer(PACKAGED["reader"], options))
    for target, words in options.items():
        for option in words:
            tokens = reader.encode(
                answer_to_propose([(target, option), (target, option)]), add_special_tokens=False
            ).ids
            cut = reader.decode(tokens[:FIRST_IDEA], skip_special_tokens=False)
            assert parse_first(cut) == f"{target} to {option} helps."


def test_the_advisor_that_was_not_trained_on_it_is_refused(tmp_path: Path) -> None:
    config = settings(advisor__model="tiny", advisor__calls="one")
    with pytest.raises(UsageError, match="was trained on three calls a rollout"):
        refuse_unless_read(config, TASK)
    refuse_unless_read(settings(advisor__model="reader", advisor__calls="one"), TASK)
