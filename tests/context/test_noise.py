"""The size of the noise in a question: from equal programs, and never from fresh instances."""

from dataclasses import replace

import pytest

from pace_async.config import PromptsConfig
from pace_async.context.noise import Noise, noise_of
from pace_async.context.notes import notes_question
from pace_async.context.questions import Prompts
from pace_async.context.templates import Templates
from pace_async.search.results import Results
from pace_async.state.run_state import RunState
from pace_async.task import TaskSpec
from tests.support.contexts import PROGRAM, TASK, begun, rollout
from tests.support.fitness import UP

NOISY = TASK.spec.model_copy(update={"deterministic": False})
COMMAND = NOISY.model_copy(update={"kind": "command"})
NOT_KNOWN = "Scores are noisy: a small gain may be chance."


def limits(state: RunState, spec: TaskSpec = NOISY) -> str:
    prompts = Prompts(replace(TASK, spec=spec), Templates.of(PromptsConfig()))
    island = state.islands[1]
    return prompts.questions(state, island, island.members[0]).one(prompts.budget).sections["limits"]


def twice(pairs: int) -> RunState:
    """Each program was made by two candidates, which differ by .01, .02, .03 and so on."""
    state = begun()
    for pair in range(pairs):
        program = PROGRAM.replace("import", f"# pair {pair}\nimport", 1)
        rollout(state, 2 * pair + 1, score=1.5, program=program)
        rollout(state, 2 * pair + 2, island=2, score=1.5 - (pair + 1) / 100, program=program)
    return state


def test_equal_programs_give_the_noise_its_size_from_three_pairs_on() -> None:
    assert NOT_KNOWN in limits(twice(2))
    told = (
        "Two evaluations of one program differ by about 0.02 (the median of 3 pairs): a gain below that may be chance."
    )
    assert told in limits(twice(3))
    prompts = Prompts(replace(TASK, spec=NOISY), Templates.of(PromptsConfig()))
    assert told in notes_question(prompts, twice(3)).text, "the writer of notes is told too"


def test_a_task_whose_scores_repeat_has_no_noise() -> None:
    text = limits(twice(3), TASK.spec)
    assert "nois" not in text and "differ" not in text


def test_the_task_s_own_program_made_again_is_a_pair() -> None:
    state = begun()
    for lease, score in enumerate((1.25, 1.25, 0.75), start=1):
        rollout(state, lease, score=score, program=PROGRAM)
    assert noise_of(state.memory.view(1), NOISY, state.memory.first) == Noise(0.25, 3)


def test_a_score_from_memory_and_a_failed_evaluation_are_no_pair() -> None:
    state = twice(3)
    view = state.memory.view(1)
    view.tested[2] = replace(view.tested[2], seconds=0.0)
    view.tested[4] = replace(view.tested[4], score=None, outcome="timeout")
    assert noise_of(view, NOISY, state.memory.first) is None


@pytest.mark.parametrize(("spec", "known"), [(NOISY, False), (COMMAND, True)])
def test_a_second_evaluation_counts_where_it_has_no_instances_of_its_own(spec: TaskSpec, known: bool) -> None:
    state = begun()
    for lease in (1, 2, 3):
        rollout(state, lease, score=1.0 + lease)
        view = state.memory.view(1)
        view.tested[lease] = replace(view.tested[lease], again=1.0 + lease - 0.3125)
    told = limits(state, spec)
    assert ("differ by about 0.31 (the median of 3 pairs)" in told) is known
    assert known or NOT_KNOWN in told
    assert noise_of(view, spec, None) == (Noise(0.3125, 3) if known else None)


def test_repeated_evaluations_on_the_hidden_instances_count_once_their_candidate_may_be_seen() -> None:
    state = begun()
    for lease in (1, 2, 3):
        rollout(state, lease, score=1.0 + lease, ends=lease < 3)
        state.repeated[lease] = (1.0 + lease, 0.75 + lease, 0.5 + lease)
    view = state.memory.view(1)
    assert noise_of(view, NOISY, None, state.repeated) == Noise(0.375, 4)
    assert "differ by about 0.38 (the median of 4 pairs)" in limits(state)


def test_equal_programs_are_the_same_pairs_in_any_order_of_ends() -> None:
    known = twice(5).memory.view(1)
    tested = list(known.tested.values())
    backwards = Results(UP)
    for one in reversed(tested):
        backwards.add(one)
    at_once = Results.of(UP, (), tested)
    assert backwards.repeated == known.repeated == at_once.repeated
    assert noise_of(backwards, NOISY, None) == noise_of(known, NOISY, None) == Noise(pytest.approx(0.03), 5)  # type: ignore[arg-type]
