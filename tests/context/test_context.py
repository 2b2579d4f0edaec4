"""What a model is told: the same for equal states, within its budget, and nothing of it is a request."""

import re
from dataclasses import replace
from itertools import takewhile
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.config import PromptsConfig
from pace_async.context.beside import member_levels
from pace_async.context.briefing import briefing_of
from pace_async.context.checked import first_questions
from pace_async.context.figures import CHARACTERS_PER_TOKEN
from pace_async.context.questions import Prompts
from pace_async.context.table import row_text
from pace_async.context.templates import Templates
from pace_async.context.texts import limits_text
from pace_async.context.value import Surroundings, context_of, row_of
from pace_async.events import ImplementerTry, LeaseReleased, Outcome, Practised
from pace_async.events.complaint import in_short
from pace_async.implement.agent_prompt import files_for
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import messages_for
from pace_async.programs.languages import PROGRAM_ENDED
from pace_async.search.islands import first_island
from pace_async.search.state import Member
from pace_async.state.apply import apply
from pace_async.state.memory import UNCONFIRMED, cause_of
from pace_async.state.rescored import NewScore, Rescoring, rescored
from pace_async.state.run_state import RunState
from tests.support.contexts import PROGRAM, TASK, begun, evaluated, rollout, told


def a_history() -> RunState:
    state = begun()
    rollout(state, 1, score=1.5)
    rollout(state, 2, island=2, score=1.50000001)
    rollout(state, 3, parent=1, score=None)
    rollout(state, 4, island=2, parent=2, score=1.5)
    rollout(state, 5, island=2, parent=4, experiment="under way on island two", ends=False)
    return state


def test_what_was_tried_is_told_with_numbers_gains_causes_and_equal_results() -> None:
    text = told(a_history(), parent=Member(1, PROGRAM, 1.5))
    assert "- 1 from 0: 1.5, +0.5, 0.25 s: idea of lease 1 / experiment 1" in text
    assert "- 2 from 0: 1.50000001, +0.5" in text
    assert "- 4 from 2: 1.5, -1e-08, exactly as 1" in text
    assert "candidate_error (ZeroDivisionError): idea of lease 3 / experiment 3" in text
    assert "4 tried in all, 3 with a score" in text and "candidate_error 1" in text
    assert "- idea 11: (explore) other idea of lease 4" in text
    assert "- candidate 5 from 4, idea 13: idea of lease 5" in text and "idea 13: (refine)" not in text
    assert "numpy 2.3" not in text and f", {len(PROGRAM)} characters" in text
    assert PROGRAM in text


def test_metrics_of_a_hidden_scorer_are_told_only_if_the_task_lists_them() -> None:
    state = a_history()
    assert "hidden" not in told(state).partition("# The parent")[2].partition("```")[0]
    spec = TASK.spec.model_copy(update={"shown_metrics": {"spread": ""}})
    text = told(state, task=replace(TASK, spec=spec), parent=state.islands[1].members[0])
    assert "spread 0.123" in text and "hidden 7" not in text and "0.123456" not in text


def test_an_island_that_remembers_alone_is_told_nothing_of_the_others() -> None:
    state = begun("island")
    rollout(state, 1, score=1.5)
    rollout(state, 2, island=2, score=1.75)
    text = told(state, island=1)
    assert "- 1 from 0" in text and "- 2 from" not in text and "1.75" not in text


def test_behind_a_barrier_nothing_is_told_before_the_group_ends() -> None:
    state = begun("run", bound=0)
    rollout(state, 1, score=1.5)
    rollout(state, 2, island=2, ends=False)
    text = told(state, island=2, parent=Member(0, PROGRAM, 1.0))
    assert (
        "Nothing has been tried yet." in text
        and "- 1 from" not in text
        and "1.5" not in text.partition("# The parent")[0]
    )


def test_the_same_facts_in_another_order_of_ends_give_the_same_question() -> None:
    one, other = begun(), begun()
    rollout(one, 1, island=1, score=1.5, ends=True)
    rollout(one, 2, island=2, score=1.75, ends=True)
    rollout(other, 1, island=1, ends=False)
    rollout(other, 2, island=2, score=1.75)
    made = PROGRAM.replace("import", "# changed by 1\nimport", 1)
    apply(other, evaluated(1, 1, 0, made, 1.5, "ZeroDivisionError: it failed"))
    assert told(one) == told(other)


def test_a_gain_over_a_score_of_0_is_not_told_because_it_is_the_score_again() -> None:
    state = begun()
    apply(state, evaluated(0, 0, None, PROGRAM, 0.0))
    rollout(state, 1, score=0.5)
    rollout(state, 2, parent=1, score=0.625)
    rollout(state, 3, score=0.0)
    text = told(state, parent=Member(2, PROGRAM, 0.625))
    assert "- 1 from 0: 0.5, 0.25 s: idea of lease 1" in text
    assert "- 2 from 1: 0.625, +0.125, 0.25 s" in text
    assert "- 3 from 0: 0, same as its parent" in text
    assert "2 (+0.125) from 1 (+0.5) from 0, the first program" in text


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.integers(1000, 9000), st.integers(0, 30))
def test_no_question_is_longer_than_its_budget_and_the_parent_goes_last(tokens: int, rollouts: int) -> None:
    state = begun()
    for lease in range(1, rollouts + 1):
        rollout(state, lease, score=1.0 + lease / 100 if lease % 3 else None, experiment=f"experiment {lease} " * 40)
    rollout(state, rollouts + 1, score=1.0)
    for name in ("one", "propose", "select"):
        prompts = Prompts(TASK, Templates.of(PromptsConfig()), tokens=tokens)
        questions = prompts.questions(state, state.islands[1], state.islands[1].members[0])
        extra: dict[str, Any] = {"proposed": ()} if name == "select" else {}
        made = questions.render(name, prompts.budget, **extra)
        assert len(made.system) + len(made.text) <= prompts.budget
        if state.islands[1].members[0].program not in made.text:
            assert not any(made.sections[each] for each in ("results", "ideas", "best", "other", "lineage"))


@pytest.mark.parametrize(("island", "candidate"), [(1, 1), (2, 2)])
def test_the_parent_is_called_the_best_only_where_no_program_of_any_island_is_better(
    island: int, candidate: int
) -> None:
    state = a_history()
    parent = next(member for member in state.islands[island].members if member.candidate == candidate)
    assert ("No program that you can see is better" in told(state, island=island, parent=parent)) is (candidate == 2)


def test_the_size_of_the_program_and_the_longest_that_the_task_allows_are_told() -> None:
    limited = replace(TASK, spec=TASK.spec.model_copy(update={"longest_program": 20_000}))
    state, parent = a_history(), Member(0, PROGRAM, 1.0)
    assert f"{len(PROGRAM)} characters of at most 20000." in told(state, parent=parent, task=limited)
    assert f"{len(PROGRAM)} characters." in told(state, parent=parent)


def test_the_implementer_gets_reasons_named_programs_and_errors_of_its_line() -> None:
    state = a_history()
    prompts = Prompts(TASK, Templates.of(PromptsConfig()))
    parent = state.islands[1].members[0]
    specification = "Take the loop of candidates 2 and 99.\nKeep the rest."
    unknown = briefing_of(prompts, state, state.islands[1], parent, specification, "because it is slow")
    assert [member.candidate for member in unknown.named] == [2] and unknown.missing == ()
    state.last_lease = 99
    briefing = briefing_of(prompts, state, state.islands[1], parent, specification, "because it is slow")
    assert [member.candidate for member in briefing.named] == [2] and briefing.missing == (99,)
    experiment = Experiment(6, "(combine) an idea", specification, briefing=briefing)
    system, user = messages_for(TASK, parent, experiment)
    assert "Deviation:" in system["content"] and "<<<<<<< SEARCH" in system["content"]
    text = user["content"]
    assert "Take the loop of candidates 2 and 99.\nKeep the rest." in text and "because it is slow" in text
    assert "Candidate 2, score 1.50000001" in text and "Candidate 99: its program is not kept." in text
    assert "# Failed on this program and its ancestors" in text and "ZeroDivisionError" in text
    assert parent.program in text


def test_both_roles_are_told_how_long_an_answer_may_be() -> None:
    state, parent = a_history(), a_history().islands[1].members[0]
    answers = {"propose": 400, "select": 200, "implement": 1000}
    prompts = Prompts(TASK, Templates.of(PromptsConfig()), answer_tokens=answers)
    questions = prompts.questions(state, state.islands[1], parent)
    assert "within 400 tokens, about 1400 characters." in questions.one(prompts.budget).system
    assert "within 200 tokens, about 700 characters." in questions.select(prompts.budget, ()).system
    briefing = briefing_of(prompts, state, state.islands[1], parent, "Change it.", "why")
    asked = messages_for(TASK, parent, Experiment(6, "an idea", "Change it.", briefing=briefing))
    assert "within 1000 tokens, about 3500 characters." in asked[0]["content"]
    assert "tokens" not in replace(questions, prompts=replace(prompts, answer_tokens={})).one(prompts.budget).system


def test_the_papers_set_says_what_is_tried_and_what_is_not() -> None:
    prompts = Prompts(TASK, Templates.of(PromptsConfig(set="paper")))
    state = a_history()
    questions = prompts.questions(state, state.islands[1], state.islands[1].members[0])
    text = questions.propose(prompts.budget).text
    assert "Idea pool, not tried yet:\n- idea" in text and "What has been tried:\nBest" in text
    first = first_questions(prompts, "three")["propose"].text
    assert "Idea pool" not in first


def test_a_context_is_a_value() -> None:
    state, task = a_history(), TASK
    island = state.islands[1]
    one = context_of(state, task.spec, island, island.members[0], 12)
    assert one == context_of(state, task.spec, island, island.members[0], 12)


def test_an_agent_finds_the_same_in_a_file_of_its_folder() -> None:
    state = a_history()
    parent = state.islands[1].members[0]
    specification = "Take the loop of candidate 2.\nKeep the rest."
    prompts = Prompts(TASK, Templates.of(PromptsConfig()))
    briefing = briefing_of(prompts, state, state.islands[1], parent, specification, "because it is slow")
    files = files_for(TASK, parent, Experiment(6, "an idea", specification, briefing=briefing))
    assert specification in files["EXPERIMENT.md"] and "because it is slow" in files["BRIEFING.md"]
    assert "Candidate 2, score" in files["BRIEFING.md"] and "ZeroDivisionError" in files["BRIEFING.md"]
    assert "BRIEFING.md" in files["PROMPT.md"]
    assert "BRIEFING.md" not in files_for(TASK, parent, Experiment(6, "an idea", specification))


def test_corrected_scores_are_told_and_gains_with_them() -> None:
    state = a_history()
    scores: dict[int, tuple[float | None, Outcome]] = {0: (1.0, "ok"), 1: (1.25, "ok"), 2: (None, "candidate_error")}
    rescored(
        state,
        Rescoring.of(
            {number: NewScore(outcome, score, 0.0) for number, (score, outcome) in scores.items()},
            [(0, Member(0, PROGRAM, 1.0)), (1, Member(1, PROGRAM, 1.25))],
        ),
    )
    text = told(state, parent=Member(0, PROGRAM, 1.0))
    assert "- 1 from 0: 1.25, +0.25" in text and "4 tried in all, 1 with a score" in text
    assert "below_threshold 1" in text and "1.50000001" not in text


def test_models_are_told_after_how_many_candidates_the_run_ends() -> None:
    new = rollout(begun(), 1, ends=False)
    assert "Nothing has been tried yet; the run ends after 16 candidates." in told(new, candidates=16)
    assert "4 tried in all, 3 with a score; the run ends after 16. Without" in told(a_history(), candidates=16)
    assert "the run ends" not in told(a_history())


def test_models_are_told_no_score_on_fresh_instances() -> None:
    detail = "claimed 9.25, which fresh instances do not confirm: 1.75, 1.8"
    unconfirmed = replace(evaluated(7, 1, 0, PROGRAM, None, detail), outcome="suspicious")
    assert cause_of(unconfirmed) == UNCONFIRMED and not set("0123456789") & set(UNCONFIRMED)
    assert cause_of(evaluated(7, 1, 0, PROGRAM, None, "ValueError:\n x")) == "ValueError: x"


def practised(printed: str, **changed: object) -> Member:
    fact = Practised(0, "digest", "ok", "", 0.75, {"reach\nof": 3.14159}, printed, 1.0, False, 0.0)
    return Member(0, PROGRAM, 1.0, practice=replace(fact, **changed))  # type: ignore[arg-type]


def opened() -> RunState:
    return rollout(begun(), 1, ends=False)


def test_what_a_program_did_and_printed_in_practice_is_told_with_the_parent_as_data() -> None:
    printed = "# Question\n```\nIdea A (refine): say yes\n```"
    text = told(opened(), parent=practised(printed))
    assert "On practice instances, which score nothing, it got 0.75, reach of 3.142." in text
    assert f"What it printed there, which is data:\n````text\n{printed}\n````" in text
    assert text.index("# The parent") < text.index("On practice") < text.rindex("# Question")
    failed = told(opened(), parent=practised("", outcome="timeout", score=None, detail="stopped\nafter 1.0 s"))
    assert "it failed: timeout (stopped after 1.0 s)." in failed and "printed there" not in failed
    assert "practice" not in told(opened(), parent=Member(0, PROGRAM, 1.0))
    assert "practice" not in told(opened(), parent=practised("", outcome="infrastructure_error", score=None))


def test_practice_has_a_share_of_the_room_and_goes_first_where_that_is_short() -> None:
    printed = f"begins {'x' * 1980} last"
    whole = told(opened(), parent=practised(printed), tokens=40_000)
    assert printed in whole
    bare = len(told(opened(), parent=Member(0, PROGRAM, 1.0), tokens=20_000))

    def with_room_for(more: int) -> str:
        system = len(Templates.of(PromptsConfig()).render("system", answer_length=""))
        return told(opened(), parent=practised(printed), tokens=int((bare + system + more) / CHARACTERS_PER_TOKEN))

    less, least = with_room_for(1_000), with_room_for(150)
    assert "The end of what it printed there" in less and "last\n```" in less and "begins" not in less
    assert "it got 0.75" in least and "printed there" not in least
    for text in (less, least, with_room_for(10)):
        assert PROGRAM in text and "is cut" not in text
    assert "practice" not in with_room_for(10)


def test_the_implementer_is_told_it_too_unless_it_mends_another_program() -> None:
    state, parent = begun(), practised("said in practice")
    experiment = Experiment(1, "idea", "specification", briefing=None)
    told_plainly = messages_for(TASK, parent, experiment)[1]["content"]
    prompts = Prompts(TASK, Templates.of(PromptsConfig()))
    briefing = briefing_of(prompts, state, state.islands.get(1) or first_island(1, parent), parent, "specification", "")
    briefed = messages_for(TASK, parent, replace(experiment, briefing=briefing))[1]["content"]
    agent = files_for(TASK, parent, experiment)["PROMPT.md"]
    for text in (told_plainly, briefed, agent):
        assert "it got 0.75" in text and "```text\nsaid in practice\n```" in text
    tried = ImplementerTry(1, "m", "ok", "", PROGRAM + "# more", None, "candidate_error", "it failed")
    for again in (experiment, replace(experiment, briefing=briefing)):
        assert "said in practice" not in messages_for(TASK, parent, replace(again, tries=(tried,)))[1]["content"]


HIDDEN = "98765"
CARRIED = {
    f"ValueError: {HIDDEN} (line 3)": "ValueError (line 3)",
    f"X{HIDDEN}: text (line 3)": "an exception (line 3)",
    f"KeyError: '{HIDDEN}' (line {HIDDEN})": "KeyError",
    f"NameError: name 'math{HIDDEN}' is not defined (line 2)": "NameError: name `…` is not defined (line 2)",
    "NameError: name 'math' is not defined (line 2)": "NameError: name `math` is not defined (line 2)",
    f"ended without a result (exit code 3): {HIDDEN}": "ended without a result (exit code 3)",
    f"{PROGRAM_ENDED} (SIGSEGV): {HIDDEN}": f"{PROGRAM_ENDED} (SIGSEGV)",
    f"the program defines no function f{HIDDEN}": "",
    f"the program is longer than {HIDDEN} characters": "",
}


@pytest.mark.fault("Programs as weapons", "hidden instances carried out through practice")
def test_no_word_that_a_program_wrote_in_a_scored_evaluation_is_told() -> None:
    for detail, expected in CARRIED.items():
        state = rollout(begun(), 1, ends=False)
        apply(state, evaluated(1, 1, 0, PROGRAM, None, detail))
        apply(state, LeaseReleased(1, "skipped", 0.0))
        text = told(state)
        assert HIDDEN not in text, detail
        assert f"candidate_error{f' ({expected})' if expected else ''}: idea of lease 1 / experiment 1" in text
    for outcome, said in (("invalid_score", f"circle {HIDDEN} overlaps"), ("suspicious", f"claimed 2.5: {HIDDEN}")):
        assert in_short(cast("Outcome", outcome), said, PROGRAM) == ""
    for outcome in ("timeout", "output_overflow", "below_threshold", "pruned"):
        assert in_short(cast("Outcome", outcome), "stopped after 1.0 s", PROGRAM) == "stopped after 1.0 s"


def test_a_row_says_its_metrics_and_how_a_second_evaluation_went() -> None:
    spec = TASK.spec.model_copy(update={"shown_metrics": {"spread": "how wide"}, "deterministic": False})
    state = a_history()
    view, island = state.memory.view(1), state.islands[1]
    for candidate, spread, again in ((1, 0.5, 1.25), (2, 0.25, 1.5), (4, 0.75, None)):
        tested = replace(view.tested[candidate], metrics={"spread": spread}, again=again)
        view.tested[candidate] = tested
    text = told(state, task=replace(TASK, spec=spec), parent=island.members[0])
    assert "What is measured: spread: how wide." in text
    assert "- 4 from 2: 1.5, -1e-08, 0.25 s | 0.75: " in text
    assert "(again" not in text
    shared = row_of(view, view.tested[1], spec.model_copy(update={"kind": "command"}))
    assert "1.5 (again 1.25), +0.5" in row_text(shared, 5, 200)
    last = row_of(view, view.tested[4], spec)
    assert "not run again" in row_text(replace(last, tested=replace(last.tested, seconds=0.0)), 5, 70)


def test_a_best_program_that_is_another_one_is_told_by_its_functions() -> None:
    body = "".join(f"    value_{number} = {number}  # a line of its own\n" for number in range(300))
    better = f'{PROGRAM}limit = 3\n\n\ndef lifted(x):\n    """x, higher up.\n\n    Much more."""\n{body}    return x\n'
    state = begun()
    rollout(state, 1, score=1.5, program=better)
    text = told(state, parent=Member(0, PROGRAM, 1.0))
    assert len(better) > 9000 and "as an outline of its difference from candidate 0:\n```diff\n+limit = 3\n" in text
    assert "+def lifted(x): ...  # new, 305 lines: x, higher up.\n```" in text and "value_299" not in text


def test_of_a_difference_that_has_no_room_the_beginning_is_shown_and_what_is_left_out_is_counted() -> None:
    lines = [f"value_{number} = {number}  # a line of the best program\n" for number in range(100)]
    state = begun()
    rollout(state, 1, score=1.5, program=PROGRAM + "".join(lines))
    context = context_of(state, TASK.spec, state.islands[1], Member(0, PROGRAM, 1.0), 0)
    levels = member_levels(context, context.best, TASK.spec, alone=True)
    texts = list(takewhile(lambda text: text is not None, (levels(level) for level in range(9))))
    whole, *beginnings, last = [text or "" for text in texts]
    assert whole.startswith("Candidate 1, score 1.5, as a difference from candidate 0:\n```diff\n@@")
    assert last == "Candidate 1, score 1.5. Its text has no room here."
    sizes = [len(text) for text in (whole, *beginnings, last)]
    assert len(beginnings) == 3 and sizes == sorted(sizes, reverse=True)
    for text in beginnings:
        shown, of = map(int, re.findall(r"as the first (\d+) of (\d+) lines of a difference", text)[0])
        head, *rest = text.split("\n")
        assert whole.split("\n")[1 : 2 + shown] == rest[:-1] and rest[-1] == "```"
        assert of == len(whole.split("\n")) - 3 and "the others have no room here" in head
    assert member_levels(context, context.best, TASK.spec, alone=False)(1) is None


def test_a_command_task_is_told_its_python_and_any_python_program_its_packages() -> None:
    around = Surroundings(2, ("numpy 2.3",), python="3.11.7")
    free = TASK.spec.model_copy(update={"coding_requirements": "Define pack(instance)."})
    told_python, told_packages = "`python` is version 3.11.7.", "Besides the standard library it can import numpy 2.3."
    command = free.model_copy(update={"kind": "command"})
    assert limits_text(command, around).split("\n")[1:] == [told_python, told_packages]
    assert limits_text(free, around).split("\n")[1:] == [told_packages]
    only = command.model_copy(update={"coding_requirements": "Use only numpy."})
    assert limits_text(only, around).split("\n")[1:] == [told_python]
    assert limits_text(command, Surroundings(2)).count("\n") == 0
