"""`advisor.role: end_to_end`: the advisor's answer is the edit, and nobody else writes code."""

from pathlib import Path

import anyio
import pytest

from pace_async.advise.advisor import Advice, Sampling
from pace_async.advise.in_context import advise_in_context
from pace_async.config import Config, PromptsConfig
from pace_async.configure import resolve
from pace_async.context.bill import bill
from pace_async.context.checked import first_questions
from pace_async.context.questions import Prompts
from pace_async.context.templates import Templates
from pace_async.context.value import NOT_KNOWN
from pace_async.errors import CandidateFault, UsageError
from pace_async.implement.advisor_edit import LONGEST_TITLE, AdvisorEdit, read_edit, title_of
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.implement.notes_writer import refuse_unless_written
from pace_async.runtime.children.advisor_choice import in_words, with_advisor
from pace_async.runtime.start.asked import bill_of, questions_of
from pace_async.search.state import Member
from pace_async.task import load_task
from tests.support.answering import Answers
from tests.support.chat_models import SWITCHED, save_chat_model
from tests.support.contexts import begun, rollout
from tests.support.implementing import implement, implementing
from tests.support.writing_model import ANSWER, PROGRAM, question, write_task

PARENT = PROGRAM.format(size=3)
WHOLE = ANSWER.format(size=8)
EDIT = "<<<<<<< SEARCH\nsize = 3\n=======\nsize = 5\n>>>>>>> REPLACE\n"
CATALOGUED = load_task("circle_packing")


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (WHOLE, "Take another size."),
        (f"\n**Raise the size.**\nIt is small.\n{EDIT}", "Raise the size."),
        (f"### 1. Raise `size`\n{EDIT}", "1. Raise `size`"),
        (EDIT, "size = 5"),
        (f"```\n{EDIT}```\nThat is all.", "size = 5"),
        ("```python\nsize = 3\nother = 2\n```", "other = 2"),
        ("```python\nsize = 3\n```", "size = 3"),
        ("<<<<<<< SEARCH\nsize = 3\n=======\n>>>>>>> REPLACE\n", "size = 3"),
        (f"<think>Do not say this.</think>Say this.\n{EDIT}", "Say this."),
        (f"a\x00b\n{EDIT}", "a b"),
        (f"{'long ' * 200}\n{EDIT}", f"{('long ' * 200)[:LONGEST_TITLE].rpartition(' ')[0].rstrip()}…"),
    ],
)
def test_an_edit_is_remembered_by_the_line_before_it_or_by_its_first_new_line(answer: str, title: str) -> None:
    assert title_of(answer, PARENT, "python") == title


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "neither a code block nor an edit"),
        ("Raise the size.", "neither a code block nor an edit"),
        ("```python\nsize = 8\n", "not closed"),
        ("```python\nsize = 8\n```\n```python\nsize = 9\n```", "2 code blocks"),
        (EDIT + WHOLE, "edits and a code block"),
        (EDIT.replace(">>>>>>> REPLACE", ""), "not closed"),
        ("```rust\nlet size = 8;\n```", "marked rust"),
    ],
)
def test_an_answer_without_an_edit_is_unparsed_and_its_tokens_are_kept(answer: str, why: str) -> None:
    advice = advised(answer)
    assert [call.text for call in advice.calls] == [answer]
    assert (advice.idea, advice.experiment, advice.notes) == (None, None, ())
    assert why in (advice.unparsed or "")


def test_one_answer_is_the_experiment_and_a_new_idea_with_its_number() -> None:
    advice = advised(WHOLE)
    assert [call.purpose for call in advice.calls] == ["propose"]
    assert (advice.experiment, advice.unparsed, advice.covers, advice.base) == (WHOLE, None, (), None)
    assert [(note.number, note.description, note.known) for note in advice.notes] == [(25, "Take another size.", False)]
    assert advice.pool[0].number == advice.idea == 25


def test_the_question_has_the_parent_what_was_tried_and_the_form_of_an_edit() -> None:
    advisor = Answers({"propose": WHOLE})
    advised(WHOLE, advisor)
    asked = advisor.asked[0]
    assert "<<<<<<< SEARCH" in asked.system and "another model" not in asked.system
    assert "# What has been tried" in asked.text and "# The parent" in asked.text
    first = first_questions(writing_prompts(), "one")
    assert list(first) == ["write"]
    assert [(each.call, each.usd) for each in bill(writing_prompts(), first, (0.0, 1e-6), None)] == [("write", 0.0015)]


def test_the_small_model_of_the_long_test_was_taught_the_question_that_a_run_asks(tmp_path: Path) -> None:
    settings = {"task": str(write_task(tmp_path / "sizes")), "advisor.role": "end_to_end"}
    [asked] = questions_of(resolve(None, settings, environment={}), None)["questions"]
    assert f"{asked['system']}\n{asked['text']}" == question(3)


@pytest.mark.parametrize("answer", [WHOLE, EDIT.replace("5", "8")])
def test_the_program_is_the_parent_with_the_edit(answer: str) -> None:
    assert implemented(answer).program == PROGRAM.format(size=8)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (EDIT.replace("= 3", "= 4"), "search_not_found"),
        ("```python\nsize = (\n```", "syntax_error"),
        ("```python\nsize = 3\n```", "unchanged"),
    ],
)
def test_an_edit_that_makes_no_program_is_the_candidates_fault(answer: str, kind: str) -> None:
    with pytest.raises(CandidateFault) as raised:
        implemented(answer)
    assert raised.value.kind == kind


def test_a_run_has_one_call_and_no_implementers_call() -> None:
    config = Config.model_validate({"advisor": {"role": "end_to_end", "model": "api:openai/any"}})
    assert (config.implementer.model, config.advisor.calls, config.search.memory) == ("advisor", "one", "run")
    assert config.learner.objective == "none"

    async def main() -> None:
        async with implementing(config) as (implementer, ledger):
            made = await implement(implementer, text=EDIT.replace("size =", "turn =").replace("= 3", "= 0"))
            assert "\nturn = 5\n" in made.program
            assert (ledger.calls, ledger.reserved) == ([], {})

    anyio.run(main)
    assert bill_of(config, CATALOGUED).startswith("1 call, ")
    assert [each["call"] for each in questions_of(config, None)["questions"]] == ["write"]
    assert in_words(config, CATALOGUED, chosen=False) == (
        "openai/any, asked over the network, writes the code itself; it learns nothing"
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"implementer.model": "openai/any"}, "leave --implementer openai/any out"),
        ({"implementer.model": "catalog"}, "leave --implementer catalog out"),
        ({"implementer.model": "advisor,openai/any"}, "leave --implementer advisor,openai/any out"),
        ({"advisor.calls": "three"}, "leave advisor.calls three out"),
        ({"search.memory": "pool"}, "leave search.memory pool out"),
        ({"advisor.role": "advisor", "implementer.model": "advisor"}, "comes with advisor.role end_to_end"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_name(settings: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        resolve(None, {"advisor.model": "api:openai/any", "advisor.role": "end_to_end", **settings}, environment={})
    assert "\n" not in str(raised.value)


def test_notes_of_a_run_whose_only_model_is_trained_are_refused() -> None:
    config = Config.model_validate(
        {"advisor": {"role": "end_to_end", "model": "models/any"}, "search": {"notes_every": 10}}
    )
    with pytest.raises(UsageError, match="models/any is the only one: leave it out"):
        refuse_unless_written(config)


@pytest.mark.parametrize("model", ["auto", "tiny", "reader", "bandit"])
def test_an_advisor_that_writes_no_code_is_refused_in_one_sentence(model: str) -> None:
    config = Config.model_validate({"advisor": {"role": "end_to_end", "model": model}})
    with pytest.raises(UsageError, match=r"the advisor writes code, and .*: name a language model") as raised:
        with_advisor(config, CATALOGUED)
    assert "\n" not in str(raised.value)


def test_its_longest_answer_is_that_of_a_program_and_at_most_half_of_the_context(tmp_path: Path) -> None:
    model = save_chat_model(tmp_path / "model", SWITCHED)  # 2048 positions
    config = Config.model_validate({"advisor": {"role": "end_to_end", "model": str(model)}})
    assert config.advisor.longest_answer == 4096
    assert with_advisor(config, CATALOGUED).advisor.max_tokens == 1024


def advised(answer: str, advisor: Answers | None = None) -> Advice:
    state = rollout(begun(), 1, score=1.5)
    questions = writing_prompts().questions(state, state.islands[1], state.islands[1].members[0])

    async def main() -> Advice:
        return await advise_in_context(
            advisor or Answers({"propose": answer}),
            questions,
            lease=9,
            sampling=Sampling(1, one_call=True, max_tokens=100),
            read=read_edit,
        )

    return anyio.run(main)


def writing_prompts() -> Prompts:
    return Prompts(CATALOGUED, Templates.of(PromptsConfig()), NOT_KNOWN, 6000, end_to_end=True)


def implemented(answer: str) -> ImplementedProgram:
    experiment = Experiment(1, "", answer)
    return anyio.run(AdvisorEdit(CATALOGUED).implement, CATALOGUED, Member(0, PARENT, 3.0), experiment)
