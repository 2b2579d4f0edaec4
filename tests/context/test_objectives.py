"""What models are told where a task has several objectives."""

from dataclasses import replace

from pace_async.aims import weights_of
from pace_async.config import Config, PromptsConfig
from pace_async.context.questions import Prompts
from pace_async.context.templates import Templates
from pace_async.context.value import base_of
from pace_async.events import LeaseOpened
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import messages_for
from pace_async.search.state import rules_of
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState, Terms
from pace_async.task.objectives import Objective
from tests.support.contexts import PROGRAM, TASK, evaluated, rollout

OBJECTIVES = tuple(
    Objective.model_validate({"metric": name, "direction": "minimize", "bounds": {"lower": 0, "upper": 1}, **more})
    for name, more in (("Fast", {}), ("small", {"at_most": 0.95}))
)
SPEC = TASK.spec.model_copy(update={"objectives": OBJECTIVES})
TRADED = replace(TASK, spec=SPEC)


def with_a_front() -> RunState:
    """Candidates 1 to 12 on a line between the two objectives, and 13, which all but two surpass."""
    config = Config.model_validate({"advisor": {"model": "api:m"}, "search": {"memory": "run"}})
    state = RunState(Terms(8, 2, rules_of(config.search, SPEC.fitness), trains=False))
    apply(state, evaluated(0, 0, None, PROGRAM, 0.1, metrics={"Fast": 0.9, "small": 0.9}))
    places = {number: (number / 13, 1 - number / 13) for number in range(1, 13)}
    for number, (fast, small) in {**places, 13: (0.9, 0.85)}.items():
        metrics = {"Fast": fast, "small": small, "hidden": 7.0}
        score = SPEC.fitness.score_of(SPEC.fitness.costs(metrics))
        rollout(state, number, score=score, metrics=metrics, program=f"{PROGRAM}# {number}\n")
    return state


def test_models_are_told_the_objectives_the_weights_and_the_front() -> None:
    state = with_a_front()
    apply(state, LeaseOpened(14, 1, 2, 0, 0.0, None))
    island = state.islands[1]
    questions = Prompts(TRADED, Templates.of(PromptsConfig())).questions(state, island, island.members[0])
    text = questions.one(60_000).text
    fast, small = weights_of(14, 2)
    assert f"This experiment counts by the objectives with these weights: Fast {fast:.2f}, small {small:.2f}." in text
    said = "Fast (lower is better, from 1 to 0); small (lower is better, from 1 to 0, at most 0.95)"
    assert f"There are 2 objectives: {said}." in text
    assert "| Fast | small" in text
    assert set(questions.context.metrics) == {"Fast", "small"}
    assert {row.tested.candidate for row in questions.context.best_rows} <= set(range(1, 13))
    assert {1, 12} <= {row.tested.candidate for row in questions.context.best_rows}


def test_an_implementer_without_a_context_is_told_the_objectives() -> None:
    parent = with_a_front().islands[1].members[0]
    text = str(messages_for(TRADED, parent, Experiment(1, "An idea.", "Do it.")))
    assert "Fast (lower is better, from 1 to 0)" in text


def test_a_base_on_the_front_is_taken_whatever_its_score_and_a_surpassed_one_is_not() -> None:
    state = with_a_front()
    island = state.islands[1]
    members = {member.candidate: member for member in island.members}
    assert base_of(state, SPEC, island, members[6], 12) == members[12]
    assert base_of(state, SPEC, island, members[11], 13) == members[11]
