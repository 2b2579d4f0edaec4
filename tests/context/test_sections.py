"""What a question leaves out: the budget holds, and the parent goes last."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from pace_async.context.levels import levels_of
from pace_async.context.sections import CUT, LEAST, ORDER, SHARES, Levels, fit_sections, without_middle
from pace_async.context.value import NOT_KNOWN, context_of
from pace_async.task import load_task
from tests.support.mid_run import mid_run

NAMES = (*ORDER, *CUT)


def levels(sizes: list[int]) -> Levels:
    return lambda level: "x" * sorted(sizes, reverse=True)[level] if level < len(sizes) else None


@st.composite
def sections(draw: st.DrawFn) -> dict[str, Levels]:
    made = {name: levels(draw(st.lists(st.integers(0, 3000), min_size=1, max_size=4))) for name in ORDER}
    task, program = draw(st.integers(0, 3000)), draw(st.integers(0, 12_000))
    return {**made, "task": levels([task]), "program": levels([program])}


@given(sections(), st.integers(0, 20_000))
def test_the_budget_is_never_exceeded(made: dict[str, Levels], budget: int) -> None:
    assert fit_sections(made, budget).size <= budget


@given(sections(), st.integers(0, 20_000))
def test_the_parent_is_never_cut_before_the_rest(made: dict[str, Levels], budget: int) -> None:
    texts = fit_sections(made, budget).texts
    whole = made["program"](0) or ""
    if texts["program"] != whole:
        assert not any(texts[name] for name in ORDER)
        assert len(texts["task"]) == 0
    if texts["task"] != (made["task"](0) or ""):
        assert not any(texts[name] for name in ORDER)


def test_sections_have_shares_only_beside_a_program() -> None:
    results = levels([9000, 1000])
    assert len(fit_sections({"results": results, "program": levels([13_000])}, 20_000).texts["results"]) == 1000
    assert len(fit_sections({"results": results}, 20_000).texts["results"]) == 9000


def test_what_a_short_question_leaves_goes_to_results_and_ideas_in_turn() -> None:
    made = {
        "results": levels([6000, 5000, 4000, 1000]),
        "ideas": levels([5000, 2000, 600]),
        "other": levels([9000, 90]),
    }
    for program, shown in ((13_000, (1000, 600)), (8000, (4000, 600)), (6000, (5000, 2000)), (100, (6000, 5000))):
        texts = fit_sections({**made, "program": levels([program])}, 56_000).texts
        assert (len(texts["results"]), len(texts["ideas"]), len(texts["other"])) == (*shown, 90)


def test_before_them_the_best_program_has_it() -> None:
    made = {"results": levels([4000, 1000]), "ideas": levels([600]), "best": levels([9000, 3000, 2000, 90])}
    for program, shown in ((13_000, (1000, 90)), (9000, (1000, 2000)), (5500, (4000, 3000)), (100, (1000, 9000))):
        texts = fit_sections({**made, "program": levels([program])}, 56_000).texts
        assert (len(texts["results"]), len(texts["best"])) == shown


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=30))
def test_a_section_shows_all_that_its_share_allows(sizes: list[int]) -> None:
    limit = LEAST * SHARES["results"]
    texts = fit_sections({"results": levels(sizes), "program": levels([54_000])}, 56_000).texts
    assert len(texts["results"]) == max((size for size in sizes if size <= limit), default=0)


def test_no_section_of_a_run_grows_with_its_level() -> None:
    task = load_task("eplb")
    state = mid_run(task)
    for member in state.islands[1].members:
        context = context_of(state, task.spec, state.islands[1], member, 12)
        for name, texts in levels_of(context, task, NOT_KNOWN).items():
            sizes = [len(text) for text in iter_levels(texts)]
            assert sizes == sorted(sizes, reverse=True), name


def iter_levels(texts: Levels) -> Iterator[str]:
    level = 0
    while text := texts(level):
        yield text
        level += 1


@given(st.text(max_size=300), st.integers(0, 300))
def test_a_text_without_its_middle_has_at_most_its_length(text: str, longest: int) -> None:
    cut = without_middle(text, longest)
    assert len(cut) <= max(longest, 0) or (cut == text and len(text) <= longest)
