"""The bill of a run whose advisor thinks says which length of its answers was assumed."""

import shutil
from pathlib import Path

import pytest

from pace_async.configure import resolve
from pace_async.runtime.start.asked import bill_of
from pace_async.task import load_task

R1 = Path(__file__).parents[2] / "scripts" / "documentation" / "shapes" / "models" / "deepseek-r1-0528-qwen3-8b"


@pytest.mark.long
@pytest.mark.nightly
def test_a_template_that_knows_the_mark_makes_answers_half_of_the_longest_and_the_bill_says_so(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(R1, model)
    given = {"task": "circle_packing", "advisor.model": str(model), "advisor.calls": "three"}
    given |= {"advisor.max_tokens": 4096, "advisor.max_prompt_tokens": 560, "implementer.model": "edits"}
    config = resolve(None, given, environment={})
    task = load_task(config.task)
    plain = bill_of(config, task)
    assert "ideas 560 in, 350 out" in plain and "thinks" not in plain
    (model / "chat_template.jinja").write_text("{{ messages[0]['content'] }}</think>")
    thinking = bill_of(config, task)
    assert "ideas 560 in, 2048 out" in thinking
    assert thinking.endswith("the advisor thinks, and each answer is taken to have 50% of its longest length")
    off = config.model_copy(update={"advisor": config.advisor.model_copy(update={"thinking": False})})
    assert bill_of(off, task) == plain
