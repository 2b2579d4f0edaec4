"""The cards that evaluations must have of their own: counted by a plan, and refused where there are too few."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.errors import NotHere, UsageError
from pace_async.evaluate.resources import resources_of
from pace_async.gpus import Card
from pace_async.plan.places import CardMemory
from pace_async.plan.planned import Plan
from pace_async.runtime.start import planning
from pace_async.runtime.start.planning import cards_of_evaluations, plan_for
from pace_async.runtime.start.refusals import limits_of
from pace_async.task import Task, load_task
from tests.support.given_steps import given

QWEN = Path(__file__).parents[2] / "scripts" / "documentation" / "shapes" / "models" / "qwen3.5-4b"
TASK = load_task("kuairec")


def kuairec(**evaluation: object) -> Config:
    settings = {
        f"evaluation.{name}": value for name, value in {"gpus_required": True, "slots": 8, **evaluation}.items()
    }
    advisor = {"advisor.model": str(QWEN), "advisor.engine": "vllm", "learner.max_length": 4096}
    return resolve(None, {"task": "kuairec", **advisor, **settings}, environment={})


def on(cards: int, config: Config) -> Plan:
    return plan_for(config, [CardMemory(str(number), 160 * 2**30) for number in range(cards)], given)


def test_a_task_says_whether_its_cards_are_needed_and_a_run_may_say_otherwise() -> None:
    assert not TASK.spec.gpus_required and limits_of(kuairec(), TASK).spec.gpus_required
    assert limits_of(kuairec(gpus_required=None), TASK) == TASK
    assert cards_of_evaluations(kuairec()) == 8 and cards_of_evaluations(kuairec(gpus_required=None)) == 0
    assert cards_of_evaluations(kuairec(evaluators="ray")) == 0, "the nodes of a cluster have their own"
    assert cards_of_evaluations(resolve(None, {"task": "eplb"}, environment={})) == 0


def test_a_plan_counts_them_beside_those_of_learner_and_engine() -> None:
    enough = on(9, kuairec())
    assert enough.evaluation_cards == 8 and enough.refusal is None
    assert on(1, kuairec(gpus_required=False)).refusal is None


@pytest.mark.parametrize(
    ("cards", "said"),
    [
        (1, "8 cards of their own (free: 0 of 1). No setting would make it fit."),
        (2, "8 cards of their own (free: 1 of 2). It fits with evaluation.slots=1."),
        (6, "8 cards of their own (free: 5 of 6). It fits with evaluation.slots=5."),
    ],
)
def test_a_plan_with_too_few_says_how_many_more_it_takes_and_which_setting_would_do(cards: int, said: str) -> None:
    plan = on(cards, kuairec())
    assert plan.refusal == f"The run does not fit: 8 evaluations at once need {said}"
    if plan.remedy is not None:
        assert on(cards, kuairec(slots=plan.remedy["evaluation.slots"])).refusal is None


def test_a_run_refuses_to_evaluate_without_them_and_a_dry_run_notes_what_another_machine_has() -> None:
    config = kuairec(slots=1)
    task = limits_of(config, TASK)
    with pytest.raises(NotHere, match="needs a GPU for each evaluation, and pace sees none here"):
        resources_of(task, config.evaluation, {}, ())
    one = (Card("0", Path("nvidia0")),)
    with pytest.raises(UsageError, match="0 of 1 cards are free, because of the learner and the engine: lower"):
        resources_of(task, config.evaluation, {"0": "the learner and the engine"}, one)
    assert resources_of(task, config.evaluation, {}, one).slots[0].cards == one


@pytest.mark.parametrize(
    ("gpus", "slots", "cards", "wanted", "fitting"),
    [(0.4, 5, 3, 3, 4), (0.5, 3, 2, 2, 2), (2.0, 4, 2, 8, None), (2.0, 4, 6, 8, 2), (0.5, 4, 3, 2, 4)],
)
def test_shares_and_several_cards_are_counted_as_slots_get_them(
    gpus: float, slots: int, cards: int, wanted: int, fitting: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = replace(TASK, spec=TASK.spec.model_copy(update={"gpus": gpus}))

    def load(_: str) -> Task:
        return task

    monkeypatch.setattr(planning, "load_task", load)
    plan = on(cards, kuairec(slots=slots))
    assert plan.evaluation_cards == wanted
    if fitting == slots:
        assert plan.refusal is None
    else:
        assert plan.remedy == (None if fitting is None else {"evaluation.slots": fitting})


def test_where_the_memory_does_not_fit_either_the_remedy_is_both_or_none() -> None:
    small = [CardMemory(str(number), 2 * 2**30) for number in range(2)]
    plan = plan_for(kuairec(), small, given)
    assert len(plan.faults) > 1
    assert plan.remedy is None or plan.remedy["evaluation.slots"] == 1
    assert plan_for(kuairec(), small[:1], given).remedy is None
