"""What the advisor of the paper's rows is told in the middle of a run: the task, the whole parent, the results."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.configure import resolve
from pace_async.context.questions import Prompts
from pace_async.context.templates import Templates
from pace_async.runtime.start.refusals import limits_of
from pace_async.task import load_task
from tests.support.mid_run import AROUND, mid_run

CONFIGS = Path(__file__).parents[2] / "configs" / "paper"


@pytest.mark.parametrize("advisor", [None, "deepseek_8b"])
@pytest.mark.parametrize("name", ["eplb", "kuairec", "multi_evolve"])
def test_the_task_the_whole_parent_and_the_results_are_told_even_of_a_program_that_has_grown(
    name: str, advisor: str | None
) -> None:
    files = [CONFIGS / f"{each}.yaml" for each in (name, advisor) if each is not None]
    config = resolve(files, environment={})
    task = limits_of(config, load_task(config.task))
    grown = replace(task, program=task.program + "\n\n# what a search has added\n" + "ADDED = 1  # of many\n" * 250)
    prompts = Prompts(grown, Templates.of(config.prompts, task.folder), AROUND, config.prompts.tokens)
    state = mid_run(grown)
    island, parent = next((island, member) for island in state.islands.values() for member in island.members)
    asked = prompts.questions(state, island, parent).one(prompts.budget)
    assert task.spec.background.strip() in asked.text and not asked.cut
    assert parent.program.count("ADDED") == asked.text.count("ADDED") == 250
    rows = [line for line in asked.sections["results"].splitlines() if line.startswith("- ")]
    assert len(rows) >= 8
    longest = config.learner.max_length
    assert longest is not None
    assert len(asked.system + asked.text) / 3.5 + config.advisor.longest("propose") <= longest
