"""pace prompts, and a run whose templates do not render."""

import json

import pytest

from pace_async.context.templates import NAMES
from tests.support.command_line import Shell

MODELS = ("--advisor", "api:openai/local", "--implementer", "openai/local")


def test_what_is_asked_is_printed_with_tokens_by_section(shell: Shell) -> None:
    said = shell.pace("prompts", "show", "circle_packing")
    assert said.code == 0, said.err
    assert "== one: about " in said.out and "program " in said.out and "== implement: about " in said.out
    found = json.loads(shell.pace("prompts", "show", "circle_packing", "--json", "--set", "advisor.calls=three").out)
    assert [each["call"] for each in found["questions"]] == ["propose", "assess", "select", "implement"]
    assert all(sum(each["sections"].values()) < each["tokens"] for each in found["questions"])


def test_what_is_shown_is_what_a_run_of_this_configuration_asks(shell: Shell) -> None:
    assert shell.pace("prompts", "show", "eplb").out.startswith("== one: ")
    (shell.folder / "mine.yaml").write_text("advisor: {calls: three}\nreward: {lower: 0.25, upper: 0.75}\n")
    said = ("prompts", "show", "eplb", "--config", "mine.yaml", "--json")
    found = json.loads(shell.pace(*said, "--set", "evaluation.program=hierarchical.py").out)
    assert [each["call"] for each in found["questions"]] == ["propose", "assess", "select", "implement"]
    assert "as DeepSeek's load balancer does" in found["questions"][0]["text"]
    assert all("Progress: from a score of 0.25 (none) to 0.75 (full)." in each["text"] for each in found["questions"])
    short = shell.pace("prompts", "show", "eplb", "--set", "evaluation.timeout_s=7").out
    assert "A whole evaluation has 7 s of wall clock" in short and "It has 20 s" not in short


def test_a_model_that_is_asked_in_three_calls_unless_told_otherwise_is_shown_so(shell: Shell) -> None:
    wanted = ("advisor.model=models/qwen3-0.6b", "search.memory=run")
    sets = [word for setting in wanted for word in ("--set", setting)]
    found = json.loads(shell.pace("prompts", "show", "circle_packing", *sets, "--json").out)
    assert [each["call"] for each in found["questions"]] == ["propose", "assess", "select", "implement"]


@pytest.mark.parametrize("task", ["eplb", "circle_packing"])
def test_a_question_shows_no_score_that_nothing_got(shell: Shell, task: str) -> None:
    said = shell.pace("prompts", "show", task).out
    assert "Candidate 0, not scored yet, " in said and "Candidate 0, score" not in said


def test_templates_of_ones_own_are_copied_changed_and_used(shell: Shell) -> None:
    assert shell.pace("prompts", "init", "mine").code == 0
    assert sorted(file.stem for file in (shell.folder / "mine").iterdir()) == sorted(NAMES)
    (shell.folder / "mine" / "one.j2").write_text("Only this: {{ section.program }}")
    said = shell.pace("prompts", "show", "circle_packing", "--set", "prompts.folder=mine")
    assert "Only this: Candidate 0" in said.out


def test_a_run_whose_template_does_not_render_is_refused_with_its_line(shell: Shell) -> None:
    (shell.folder / "mine").mkdir()
    (shell.folder / "mine" / "select.j2").write_text("fine\n{{ nobody_gives_this }}")
    said = shell.pace("run", "circle_packing", "--dry-run", *MODELS, "--set", "prompts.folder=mine")
    assert said.code == 2
    assert "select.j2, line 2" in said.err and "nobody_gives_this" in said.err


def test_a_dry_run_says_what_a_candidate_and_the_run_cost(shell: Shell) -> None:
    prices = [
        word
        for role in ("advisor", "implementer")
        for way in ("in", "out")
        for word in ("--set", f"{role}.price_per_million_{way}=1")
    ]
    said = shell.pace("run", "circle_packing", "--dry-run", *MODELS, *prices, "--candidates", "100", "--json")
    assert said.code == 0, said.err
    bill = json.loads(said.out)["plan"]["bill"]
    assert (
        bill.startswith("2 calls, about ")
        and "a candidate" in bill
        and "100 candidates: 200 calls" in bill
        and "100 candidates" in bill
        and "USD" in bill
    )
    bare = json.loads(shell.pace("run", "circle_packing", "--dry-run", "--json").out)
    assert bare["plan"]["bill"] == "no calls, 0 USD: no model is asked over the network"
    printed = shell.pace("run", "circle_packing", "--dry-run", *MODELS).out.splitlines()
    assert printed[0].startswith("bill ") and printed[0].count("USD unknown") >= 3
    assert "$0.00" not in printed[0] and len(printed) < 20
