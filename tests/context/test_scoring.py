"""Both roles are told what makes a score and how large the data are, as far as the task says so."""

from dataclasses import replace

import pytest

from pace_async.config import Config
from pace_async.context.briefing import Briefing
from pace_async.context.texts import measured_text
from pace_async.context.value import NOT_KNOWN
from pace_async.implement.agent_prompt import files_for
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import messages_for
from pace_async.runtime.run.core import prompts_of
from pace_async.search.islands import first_island
from pace_async.search.state import Member
from pace_async.task import Task, load_task
from tests.support.contexts import PROGRAM, TASK, begun

PARENT = Member(0, PROGRAM, 1.0)
METRICS = (
    "What is measured:\n- balancedness: mean load of a GPU in the next window / the greatest\n- speed: mean of min("
)


def briefing(task: Task, **settings: object) -> Briefing:
    config = Config.model_validate({"advisor": {"model": "api:m"}, "evaluation": {"settings": settings}})
    return Briefing(prompts_of(config, task, NOT_KNOWN), "because")


def asked(task: Task, **settings: object) -> str:
    experiment = Experiment(1, "an idea", "Change it.\nNeeds: none", briefing=briefing(task, **settings))
    return messages_for(task, PARENT, experiment)[1]["content"]


def test_the_implementer_is_told_the_metrics_the_bounds_and_the_size_of_the_data() -> None:
    text = asked(load_task("eplb")).partition("# How it is scored\n")[2].partition("\n\n# ")[0]
    assert text.startswith(METRICS)
    assert text.endswith(
        "Progress: from a score of 0.4 (none) to 0.89 (full).\nData: 6 windows, each a call, of 16 layers."
    )


def test_sizes_are_those_of_the_settings_of_the_run_and_of_its_data() -> None:
    eplb = load_task("eplb")
    assert "Data: 3 windows, each a call, of 8 layers." in asked(eplb, windows=3, layers=8)
    assert "Data:" not in asked(eplb, data="trace"), "the task says nothing of recorded windows"


def test_the_advisor_is_told_the_same_once() -> None:
    prompts = briefing(load_task("eplb")).prompts
    state = begun()
    own = state.seed_program
    assert own is not None
    text = prompts.questions(state, first_island(1, own), own).one(prompts.budget).text
    assert text.count("Data: 6 windows") == text.count(METRICS) == text.count("Progress: from") == 1


def test_progress_of_a_task_that_is_minimised_counts_downwards_and_without_bounds_nothing_is_said() -> None:
    less = TASK.spec.model_copy(update={"direction": "minimize"})
    low, high = TASK.spec.bounds.lower, TASK.spec.bounds.upper
    assert measured_text(less) == f"Progress: from a score of {high:g} (none) to {low:g} (full)."
    free = type(TASK.spec).model_validate(
        {**TASK.spec.model_dump(exclude_unset=True, exclude={"bounds"}), "target": 2.6}
    )
    assert measured_text(free) == "" and "# How it is scored" not in asked(replace(TASK, spec=free))


def test_an_agent_finds_it_in_its_folder() -> None:
    task = load_task("multi_evolve")
    experiment = Experiment(1, "an idea", "Change it.", briefing=briefing(task))
    page = files_for(task, PARENT, experiment)["BRIEFING.md"]
    assert "# How a program is scored\n\nWhat is measured:\n- pearson: " in page and "Data: 3 assays" in page


def test_sizes_that_name_no_setting_are_refused_as_the_task_is_read() -> None:
    fields = {**TASK.spec.model_dump(exclude_unset=True), "settings": {"layers": 4}}
    spec = type(TASK.spec).model_validate({**fields, "sizes": "{layers} layers."})
    assert spec.told_sizes == "4 layers"
    for wrong in ("{windows} windows", "{layers", "{}", "{layers.x}"):
        with pytest.raises(ValueError, match="must name settings of the task"):
            type(TASK.spec).model_validate({**fields, "sizes": wrong})
