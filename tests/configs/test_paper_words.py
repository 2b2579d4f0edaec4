"""What models are told of a task under each of the paper's settings is what its evaluator scores there."""

from itertools import product
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.context.checked import first_questions
from pace_async.context.texts import measured_text
from pace_async.context.value import NOT_KNOWN
from pace_async.implement.agent_prompt import task_text
from pace_async.runtime.run.core import prompts_of
from pace_async.runtime.start.refusals import limits_of
from pace_async.task import Task, TaskSpec, load_task

FOLDER = Path(__file__).parents[2] / "configs" / "paper"
CALLS = "calls come for consecutive windows, and a module keeps its state; the score is the mean of both"
OF_EPLB = (
    "What is measured:\n- balancedness: mean load of a slot in the next window / the greatest; an expert's load is "
    f"shared evenly by its slots\n- speed: 0.02 s / (0.3 s + mean time of a call, scaled to 58 layers); {CALLS}\n"
)
OF_KUAIREC = (
    "What is measured:\n- ndcg_10: the score is the mean of ndcg_10, hr_10 and mrr\n- hr_10: share of users whose next "
    "video is among the first ten\n- mrr: mean of 1 / rank\n"
)
OF_MULTI_EVOLVE = (
    "What is measured:\n- pearson: mean over assays of the correlation of predictions and truth; it is .7 of the "
    "score\n- precision_five_per_cent: share of the best 5 % of variants that are among the predicted best 5 %; it is "
    ".3 of the score, which is the mean over all assays, and the time is for all\n"
)
TOLD = {
    "eplb": ("so that in the next one no slot carries much more than the others", OF_EPLB),
    "kuairec": ("It is ranked among the videos that are not in the user's history;", OF_KUAIREC),
    "multi_evolve": ("Predict the fitness of proteins with three mutations or more", OF_MULTI_EVOLVE),
}
NEVER = ("no GPU carries", "load of a GPU", "min(1", "whole catalogue", "pocket", "core:", "surface", "Data: ")
OVER = (
    *(None, "deepseek_8b", "thetaevolve", "ttt_discover", "ttt_discover_published", "maxk", "no_rl"),
    *("no_rl_api", "end_to_end"),
)
SMALL = ((), ("without_guards",), ("small_multi_evolve",), ("small_multi_evolve", "without_guards"), ("maxk",))


def laid(*names: str | None, task: str = "") -> Config:
    """These files, one over the other."""
    given = {"task": task} if task else {}
    return resolve([FOLDER / f"{name}.yaml" for name in names if name], given, environment={})


def of_run(config: Config) -> Task:
    return limits_of(config, load_task(config.task))


@pytest.mark.parametrize(("task", "over"), list(product(TOLD, OVER)))
def test_every_question_of_a_paper_row_tells_what_its_evaluator_scores(task: str, over: str | None) -> None:
    config, (background, measured) = laid(task, over), TOLD[task]
    questions = first_questions(prompts_of(config, of_run(config), NOT_KNOWN), config.advisor.calls)
    assert len(questions) == (1 if over == "end_to_end" else 5)
    for call, question in questions.items():
        assert background in question.text, call
        assert measured in question.text, call
        assert [word for word in NEVER if word in question.text.split(measured)[0]] == [], call


@pytest.mark.parametrize("task", TOLD)
def test_an_agent_in_a_paper_row_reads_the_same_background(task: str) -> None:
    said = task_text(of_run(laid(task)).spec)
    assert TOLD[task][0] in said
    assert [word for word in NEVER if word in said] == []


@pytest.mark.parametrize(("task", "over"), list(product(["eplb", "multi_evolve"], SMALL)))
def test_the_small_comparison_tells_the_tasks_own_words(task: str, over: tuple[str, ...]) -> None:
    config, own = laid("small", *over, task=task), load_task(task).spec
    spec = prompts_of(config, of_run(config), NOT_KNOWN).task.spec
    assert (spec.background, spec.shown_metrics, spec.told_sizes) == (own.background, own.shown_metrics, own.told_sizes)


def test_what_is_told_follows_the_values_of_other_settings() -> None:
    config = resolve([FOLDER / "eplb.yaml"], {"evaluation.settings.speed_constant": 0.002}, environment={})
    assert "speed: 0.002 s / (0.3 s + mean time" in measured_text(of_run(config).spec)


def test_a_tasks_own_words_follow_the_settings_too() -> None:
    spec = load_task("eplb").spec
    assert "speed: mean of min(1, 0.02 s / time of a call" in measured_text(spec)
    assert "speed: mean of min(1, 0.002 s / time" in measured_text(spec.under({"speed_constant": 0.002}))
    braces = spec.model_copy(update={"shown_metrics": {"speed": "of {these} and {layers}"}})
    assert "speed: of {these} and 16." in measured_text(braces), "what names no setting stays"


def test_a_task_says_what_is_told_only_of_settings_that_it_has() -> None:
    fields = load_task("eplb").spec.model_dump(exclude_unset=True)
    for told_where, says in (
        ({"scorings": {"published": {"background": "Other."}}}, "names 'scorings', which is no setting of the task"),
        ({"scoring": {"published": {"shown_metrics": {"speed": "{constant} s"}}}}, "must name settings of the task"),
        ({"scoring": {"published": {"sizes": "many"}}}, "Extra inputs are not permitted"),
    ):
        with pytest.raises(ValueError, match=says):
            TaskSpec.model_validate({**fields, "told_where": told_where})
