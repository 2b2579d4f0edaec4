"""What a candidate costs in the middle of a run, and that it is told all the same what a model may know."""

from statistics import mean

import pytest

from pace_async.programs.folding import is_folded
from pace_async.task import load_task
from scripts.benchmarks.prompt_tokens import EVERY, sums_of, table, tokens_by_section
from tests.support.grown_run import grown
from tests.support.mid_run import CHOICES, changed, mid_run, questions, steps_of

TASK = load_task("eplb")
MOST = 5000
"""Tokens of both calls together, as characters divided by four."""
PARENTS = (6, 9, 11)


def both(candidate: int) -> dict[str, int]:
    """Tokens of the advisor's question and the implementer's, by what the specification needs."""
    counts = {call: each.total() for call, each in tokens_by_section(questions("eplb", candidate)).items()}
    return {needs: counts["advisor"] + counts[needs] for needs in CHOICES}


def test_both_questions_about_a_program_of_ten_thousand_characters_have_five_thousand_tokens() -> None:
    state = mid_run(TASK)
    programs = {each.candidate: each.program for island in state.islands.values() for each in island.members}
    for candidate in PARENTS:
        assert len(programs[candidate]) > 10_000 - 10
        assert programs[candidate] in questions("eplb", candidate)["advisor"].text
    tokens = [tokens for candidate in PARENTS for tokens in both(candidate).values()]
    assert mean(tokens) <= MOST
    assert max(tokens) <= 1.07 * MOST


@pytest.mark.parametrize("name", EVERY)
def test_both_questions_have_five_thousand_tokens_on_every_bundled_task(name: str) -> None:
    tokens = sums_of(tokens_by_section(questions(name, 5)))
    assert mean(tokens) <= MOST
    assert max(tokens) <= 1.07 * MOST


def test_in_a_run_by_hand_in_which_programs_grew_questions_stay_as_short_as_they_are() -> None:
    sums = [sums_of(tokens_by_section(asked))[0] for _, asked in grown("multi_evolve_one_call_3", "multi_evolve")]
    assert len(sums) == 16 and mean(sums) <= 7500
    first = dict(grown("multi_evolve_one_call_3", "multi_evolve"))["9 from 2"]
    assert "as an outline of its difference from candidate 2" in first["advisor"].sections["best"]
    assert "+def kernel(gram, held, other):" in first["implementer"].sections["named"]


def test_the_advisor_is_told_limits_results_ideas_best_line_failures_and_what_is_under_way() -> None:
    asked = questions("eplb", 6)["advisor"]
    for name in ("limits", "results", "ideas", "best", "lineage", "failed", "under_way", "program"):
        assert asked.sections[name], name
    for told in (
        *("20 s of wall clock and 1024 MiB", "1 processor", "- 11 from 9: 0.87391, +0.00269"),
        "+recent = 0.4",
        *("6 (+0.0198) from 4 (+0.00662) from 2 (+0.407) from 0", "ZeroDivisionError", "candidate 13 from 11"),
        *("12 tried in all, 11 with a score", "candidate_error 1", "more untried ideas are not shown"),
    ):
        assert told in asked.text, told
    assert not asked.cut


@pytest.mark.parametrize(("needs", "whole"), [("one function", "forecast"), ("longest function", "refine_array")])
def test_the_implementer_sees_what_the_advisor_named_and_the_named_program(needs: str, whole: str) -> None:
    text = questions("eplb", 6)[needs].text
    first = TASK.program.index(f"def {whole}(")
    assert TASK.program[first : TASK.program.index("\n\n\n", first)] in text
    assert sum(map(is_folded, text.splitlines())) > 12
    assert "Candidate 9, score 0.87122, as a difference from candidate 6:" in text and '+spread = "snake"' in text


def test_the_state_that_is_measured_is_one_that_a_run_can_have() -> None:
    programs = {0: TASK.program}
    for candidate, step in enumerate(steps_of(TASK), start=1):
        programs[candidate] = changed(programs[step.parent], step)
        assert step.under_way or programs[candidate] != programs[step.parent]


def test_the_table_of_tokens_has_a_line_for_each_section_and_the_sums() -> None:
    counts = tokens_by_section(questions("circle_packing", 5))
    lines = list(table("circle_packing", counts))
    assert lines[0] == "| circle_packing | advisor | settings | one function | longest function |"
    assert lines[2].startswith("| program |") and len(lines) == 4 + len(
        {name for each in counts.values() for name in each if each[name]}
    )
    assert lines[-2].startswith(f"| all | {counts['advisor'].total()} |")
