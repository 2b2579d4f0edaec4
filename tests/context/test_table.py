"""The table of results: metrics as columns, and what goes first where there is no room."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import PromptsConfig
from pace_async.context.questions import Prompts
from pace_async.context.rows import most_telling
from pace_async.context.table import SIZES, ideas_levels, results_levels
from pace_async.context.templates import Templates
from pace_async.context.texts import in_short
from pace_async.context.value import context_of
from pace_async.events import Practised
from pace_async.programs.compiled import digest_as_it_is
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState
from pace_async.task import TaskSpec
from tests.support.contexts import PROGRAM, TASK, begun, evaluated, rollout

NAMES = ("evenness", "speed", "memory", "length", "width", "depth", "height", "colour")
SPEC = TASK.spec.model_copy(update={"shown_metrics": dict.fromkeys(NAMES, "")})


def metrics_of(lease: int) -> dict[str, float]:
    """Each metric says more of the score than the one before it."""
    apart = {name: (-1) ** lease * (len(NAMES) - place) / 10 for place, name in enumerate(NAMES)}
    return {name: 10.0 * score_of(lease) + more for name, more in apart.items()} | {"hidden": 7.0}


def score_of(lease: int) -> float:
    return 2.0 - lease / 100 if lease else 1.0


def searched(candidates: int, words: str = "") -> RunState:
    state = begun()
    apply(state, evaluated(0, 0, None, PROGRAM, score_of(0), metrics=metrics_of(0)))
    for lease in range(1, candidates + 1):
        rollout(state, lease, island=lease, score=score_of(lease), text=f"(refine) {words}", metrics=metrics_of(lease))
    return state


def table(state: RunState, level: int, spec: TaskSpec = SPEC) -> list[str]:
    context = context_of(state, spec, state.islands[1], state.islands[1].members[0], 0)
    text = results_levels(context, 5)(level)
    assert text is not None
    return text.split("\n")


def test_every_row_with_a_score_has_a_cell_for_each_column_and_so_has_the_seed() -> None:
    lines = table(searched(12), 0)
    head = lines[0].partition(" | ")[2].partition(":")[0].split(" | ")
    assert head == list(NAMES[2:]), "the six that say most of the score, in the order of the task"
    rows = [line for line in lines if line.startswith("- ")]
    assert len(rows) == 10 + 2 + 1
    for row in rows:
        number = int(re.findall(r"- (\d+)", row)[0])
        cells = row.partition(" | ")[2].partition(":")[0].split(" | ")
        assert cells == [f"{float(f'{metrics_of(number)[name]:.4g}'):g}" for name in head]
    assert rows[-1].startswith("- 0: 1, 0.25 s | ") and rows[-1].endswith(": the first program")
    assert "hidden" not in re.split(r"[ |,.:]+", lines[-1]) and "| 7" not in "".join(rows)


def test_words_go_first_then_columns_and_then_rows_and_the_table_says_what_is_left_out() -> None:
    state = searched(24, "a sentence of a whole idea, as long as such sentences are, " * 6)
    texts = [table(state, level) for level in range(len(SIZES))]
    rows = [sum(line.startswith("- ") for line in lines) for lines in texts]
    columns = [lines[0].count(" | ") for lines in texts]
    sizes = [len("\n".join(lines)) for lines in texts]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)
    assert rows == sorted(rows, reverse=True) and columns == sorted(columns, reverse=True)
    assert (columns[0], columns[-1]) == (6, 0)
    first_without_a_row = next(level for level, count in enumerate(rows) if count < rows[0])
    assert columns[first_without_a_row - 1] == 0, "columns go before rows"
    for lines, count in zip(texts, columns, strict=True):
        left_out = lines[-1].partition("Metrics without a column: ")[2].rstrip(".")
        assert "not shown" in lines[-1]
        names = re.sub(r" and 1 more", ", x", left_out).split(", ")
        assert len(names) == len(NAMES) - count if count else not left_out


def test_a_metric_that_never_changes_has_no_column_and_one_that_some_rows_lack_has() -> None:
    state = begun()
    rollout(state, 1, score=1.5, metrics={"evenness": 2.0, "speed": 3.0})
    rollout(state, 2, score=1.25, metrics={"evenness": 2.0})
    lines = table(state, 0)
    assert "| speed: what was tried" in lines[0] and "evenness" not in lines[0]
    assert "0.25 s | 3: " in lines[1] and "0.25 s | -: " in lines[2]


def test_seconds_go_with_the_words_but_where_they_are_much_of_the_time() -> None:
    quick = searched(3)
    assert all(", 0.25 s" in line for line in table(quick, 0)[1:4])
    assert not any(", 0.25 s" in line for line in table(quick, len(SIZES) - 5))
    slow = SPEC.model_copy(update={"timeout_s": 1.0})
    assert all(", 0.25 s" in line for line in table(quick, len(SIZES) - 5, slow)[1:4])


def test_a_task_that_shows_no_metric_has_no_columns() -> None:
    lines = table(searched(3), 0, TASK.spec)
    assert not any("|" in line or "column" in line for line in lines)


def test_of_a_parent_that_is_the_tasks_own_program_the_metrics_are_told() -> None:
    state = searched(2)
    prompts = Prompts(replace(TASK, spec=SPEC), Templates.of(PromptsConfig()))
    assert state.seed_program is not None
    text = prompts.questions(state, state.islands[1], state.seed_program).one(prompts.budget).sections["program"]
    assert text.startswith("Candidate 0, score 1, evenness 10.8, speed 10.7, ")


def practised(state: RunState, lease: int, parent: int, score: float | None) -> None:
    """A candidate whose program scored 1.0 + lease, and this in practice."""
    program = PROGRAM.replace("import", f"# made by {lease}\nimport", 1)
    rollout(state, lease, parent=parent, ends=False)
    outcome = "ok" if score is not None else "timeout"
    digest = digest_as_it_is(program)
    apply(state, Practised(lease, digest, outcome, "", score, {"reach": 0.25}, "printed there", 1.0, False, 0.0))
    apply(state, evaluated(lease, 1, parent, program, 1.0 + lease))


def test_scores_in_practice_stand_beside_those_that_count_in_the_table_and_in_the_line_of_the_parent() -> None:
    state = begun()
    apply(state, Practised(0, digest_as_it_is(PROGRAM), "ok", "", 0.123456, {}, "", 1.0, False, 0.0))
    practised(state, 1, 0, 0.987654)
    practised(state, 2, 1, None)
    rollout(state, 3, parent=1, score=1.5)
    member = next(each for each in state.islands[1].members if each.candidate == 2)
    prompts = Prompts(TASK, Templates.of(PromptsConfig()))
    sections = prompts.questions(state, state.islands[1], member).one(prompts.budget).sections
    head, *rows = sections["results"].split("\n")
    assert "seconds | practice score: what was tried" in head
    cells = {row.split()[1].rstrip(":"): row.partition(" | ")[2].partition(":")[0] for row in rows if row[:1] == "-"}
    assert cells == {"1": "0.9877", "2": "-", "3": "-", "0": "0.1235"}
    assert sections["lineage"].startswith("2 (+1) from 1 (+1, in practice 0.9877) from 0")
    assert "printed there" not in sections["results"] and "reach" not in sections["results"]


def test_where_nothing_practised_there_is_no_column_for_it() -> None:
    assert "practice" not in "".join(table(searched(3), 0))


IDEA = (
    "Keep the placement of the last window where the forecast has hardly changed, by less than 0.05 of its mean. "
    "Place only the rest anew with 3 rounds."
)


def test_the_first_rows_have_their_ideas_whole_and_the_others_end_at_a_sentence_or_a_word() -> None:
    state = searched(12, IDEA)
    prompts = Prompts(replace(TASK, spec=SPEC), Templates.of(PromptsConfig()))
    text = prompts.questions(state, state.islands[1], state.islands[1].members[0]).one(prompts.budget)
    rows = [line for line in text.sections["results"].split("\n") if re.match(r"- [1-9]\d* from", line)]
    ideas = [row.rpartition(": ")[2] for row in rows]
    assert len(rows) >= 6 and sum(idea == IDEA for idea in ideas) == 2
    for idea in ideas:
        told = idea.removesuffix("…")
        assert IDEA.startswith(told)
        assert idea == IDEA or IDEA[len(told) : len(told) + 1] in (" ", ","), idea
    untried = re.findall(r"- idea \d+: (.*)", text.sections["ideas"])
    assert untried and all(each.startswith("(explore)") for each in untried)


def test_of_untried_ideas_that_are_alike_one_is_listed_and_the_places_are_for_others() -> None:
    state = begun()
    same = (
        "Cache the cheapest insertion of each customer in each route.",
        "In each route cache cheapest insertions of customers.",
    )
    for lease in range(1, 21):
        other = same[lease % 2] if lease > 12 else f"(explore) Deal slots of layer {lease} by snake order at first."
        rollout(state, lease, score=1.0, other=other)
    prompts = Prompts(TASK, Templates.of(PromptsConfig()))
    questions = prompts.questions(state, state.islands[1], state.islands[1].members[0])
    lines = questions.one(prompts.budget).sections["ideas"].split("\n")
    assert lines[0].startswith("- idea 38 (much the same: 41, 44, 47 and 4 more): In each route")
    assert not any("each route" in line for line in lines[1:])
    assert len(questions.context.ideas) == 12
    assert questions.context.choosable.keys() >= {38, 41, 44, 47, 59}, "each can be chosen and covered"


@given(st.text(alphabet="ab c.0;", max_size=200), st.integers(10, 220))
def test_a_text_in_short_is_its_beginning_and_has_at_most_its_length(text: str, longest: int) -> None:
    told = in_short(text, longest)
    line = " ".join(text.split())
    assert len(told) <= longest and line.startswith(told.removesuffix("…"))
    assert (told == line) if len(line) <= longest else True


def test_a_text_in_short_ends_after_a_sentence_else_between_words_and_not_within_a_number() -> None:
    assert in_short(IDEA, 120) == IDEA.partition(" Place")[0]
    assert in_short(IDEA, 110).endswith("0.05 of its mean.")
    assert in_short(IDEA, 95).endswith("by less than 0.05…")
    assert in_short("x" * 300, 20) == "x" * 19 + "…"


def test_an_untried_idea_that_is_close_to_what_was_tried_or_is_under_way_says_so_and_stands_last() -> None:
    state = begun()
    tried = "(refine) Cache the cheapest insertions of customers per route, since routes are immutable."
    later = "(explore) Relocate chains of three customers between neighbouring routes with a time window."
    rollout(
        state, 1, score=1.5, text=tried, other="(explore) Relocate a chain of customers between neighbouring routes."
    )
    rollout(state, 2, score=1.4, other="(explore) Keep cheapest insertions of customers in a table for all routes.")
    rollout(state, 3, score=1.3, other="(combine) Something new about penalties and their schedule.")
    rollout(state, 4, island=2, text=later, ends=False)
    ideas = (
        ideas_levels(context_of(state, SPEC, state.islands[1], state.islands[1].members[0], 12))(0) or ""
    ).splitlines()
    assert [line.partition(": ")[0] for line in ideas[-2:]] == [
        "- idea 5 (close to candidate 1)",
        "- idea 2 (close to candidate 4)",
    ]
    assert not any("close to" in line for line in ideas[:-2]) and "- idea 8: (combine) Something new" in "\n".join(
        ideas
    )


def test_the_latest_results_are_those_that_the_best_do_not_show() -> None:
    state = begun()
    for lease in range(1, 13):
        rollout(state, lease, score=1.0 + lease / 100)
    latest = "\n".join(table(state, 0)).partition("Others, the latest first:\n")[2].partition(" tried in all")[0]
    assert [line.split(" ")[1] for line in latest.split("\n")[:-1]] == ["2", "1", "0:"]


def test_a_metric_that_is_the_score_in_another_unit_has_a_column_last() -> None:
    state = begun()
    for lease, speed in ((1, 4.0), (2, 7.0), (3, 8.5)):
        rollout(state, lease, score=1.0 + lease / 10, metrics={"evenness": 100.0 + 10 * lease, "speed": speed})
    context = context_of(state, SPEC, state.islands[1], state.islands[1].members[0], 0)
    assert most_telling(context.columns, 1) == ["speed"]
    assert most_telling(context.columns, 2) == ["evenness", "speed"]
