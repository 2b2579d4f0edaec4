"""What was tried, as lists: the table of results, the parent's line, failures, untried ideas, what is under way. Pure.

A row names an idea by its sentence, because the specification that carries it out begins with details. What one list
says another does not repeat. The metrics of all rows are columns, whose names stand above them once.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from pace_async.context.figures import digits_for, gain_text, score_text, seconds_text
from pace_async.context.rows import COLUMNS, Row, most_telling
from pace_async.context.sections import Levels
from pace_async.context.texts import gist, in_short, one_line
from pace_async.context.value import Context, OngoingTrial
from pace_async.events import LearnedBefore
from pace_async.search.results import ExperimentResult, KnownIdea, most_frequent


class Size(NamedTuple):
    """What a level of the table shows: best rows, recent rows, columns, characters of what was tried in the first WHOLE
    rows of each kind, and in the others. `bare` rows have no seconds, no gain over the best before, no deviation."""

    best: int
    recent: int
    columns: int
    long: int
    short: int
    bare: bool = False


SIZES = (
    *(Size(10, 10, COLUMNS, 300, 260), Size(10, 10, COLUMNS, 260, 200), Size(10, 10, COLUMNS, 220, 160)),
    *(Size(10, 10, COLUMNS, 220, 120), Size(10, 10, COLUMNS, 190, 80), Size(10, 10, COLUMNS, 190, 70)),
    *(Size(10, 10, 3, 190, 70), Size(10, 10, 2, 190, 60)),
    *(Size(10, 10, 2, 190, 60, bare=True), Size(10, 10, 2, 150, 45, bare=True), Size(10, 10, 2, 150, 36, bare=True)),
    *(Size(10, 10, 2, 110, 36, bare=True), Size(10, 10, 2, 60, 36, bare=True), Size(10, 10, 1, 60, 36, bare=True)),
    *(Size(10, 10, 0, 60, 36, bare=True), Size(8, 6, 0, 60, 36, bare=True), Size(6, 4, 0, 60, 36, bare=True)),
    *(Size(4, 3, 0, 60, 36, bare=True), Size(3, 1, 0, 60, 36, bare=True), Size(1, 0, 0, 60, 36, bare=True)),
)
"""Levels of the table: first words go, then columns, and rows last, because what is not listed is tried again."""
LISTED: tuple[tuple[int, int, int], ...] = (
    *((12, 300, 300), (12, 250, 200), (12, 200, 120), (12, 160, 90), (12, 140, 60), (12, 110, 40), (8, 90, 40)),
    *((4, 110, 60), (2, 80, 60)),
)
"""Levels of a list: its items, characters of each of the FIRST, and of the others."""
UNDER_WAY: tuple[tuple[int, int, int], ...] = (
    *((24, 160, 160), (24, 120, 120), (24, 90, 90), (24, 70, 70), (24, 50, 50), (24, 40, 40)),
    *((16, 40, 40), (12, 40, 40), (8, 40, 40), (4, 40, 40)),
)
"""The same for what is under way: its first words say enough to do something else."""
FIRST_PROGRAM = "0, the first program"
TITLE = 50
"""Characters from which on a candidate under way is named with its parent."""
BRIEF = 120
"""Characters of an experiment outside the table."""
USUAL = 8
"""The level of the table in the middle of a run."""
FIRST = 3
"""Items of a list that have more words."""
WHOLE = 1
"""The first rows of each kind in the table, which have more words."""
BEST_HEAD = "Best{ranked} (candidate from parent: score{again}, gain over the parent{more}{columns}: what was tried):"
RANKED = " first, by the mean where there are two scores"
MORE = " (over the best with a lower number), seconds"
LONGEST_DEVIATION = 60
AND = " / "
WORTH_SAYING = 180
"""Characters of an experiment below which it is not worth a place beside its idea."""
LONGEST_METRIC = 40
PRACTICE = "practice score"
"""The column of scores on practice instances, which count for nothing."""
PRACTICE_DIGITS = 4
MOST_PINNED = 5
"""Untried ideas that a person may have put first, so that even the shortest list has room for them."""
MOST_ALIKE = 3
"""Ideas like an untried one that are named."""
MOST_VETOED = 3
"""Ideas ruled out by people that are named, so that no answer chooses them."""
MOST_LEFT_OUT = 6
"""Metrics without a column that are named."""


def results_levels(context: Context, digits: int) -> Levels:
    """The table of results: best ones, recent ones, the task's own program, the rest counted."""

    def text(level: int) -> str | None:
        if level >= len(SIZES):
            return None
        size = SIZES[level]
        tops = context.best_rows[: size.best]
        candidates = {row.tested.candidate for row in tops}
        news = _newest(context, candidates)[: size.recent]
        columns = most_telling(context.columns, size.columns) if tops else []
        practised = any(row.tested.practice is not None for row in (*tops, *news))
        names = [one_line(name, LONGEST_METRIC) for name in columns]
        header = "".join(f" | {name}" for name in [*([PRACTICE] if practised else []), *names])
        lines: list[str] = []
        again = any(row.says_again and row.tested.again is not None for row in (*tops, *news))
        ranked = again or any(row.doubted for row in tops)
        remarks = {"ranked": RANKED if ranked else "", "again": " (again)" if again else ""}
        best = BEST_HEAD.format(columns=header, more="" if size.bare else MORE, **remarks)
        for head, rows in ((best, tops), ("Others, the latest first:", news)):
            if rows:
                lengths = (size.long if place < WHOLE else size.short for place in range(len(rows)))
                texts = (
                    row_text(row, digits, most, columns, practised, bare=size.bare)
                    for row, most in zip(rows, lengths, strict=False)
                )
                lines += [head, *texts]
        if tops and context.seed is not None:
            lines.append(row_text(context.seed, digits, size.short, columns, practised, bare=size.bare))
        count = _counts(context, len({row.tested.candidate for row in (*tops, *news)}))
        return "\n".join([*lines, f"{count}{_left_out(context, columns)}"])

    return text


def row_text(
    row: Row,
    digits: int,
    longest: int,
    columns: Sequence[str] | None = None,
    practised: bool = False,
    *,
    bare: bool = False,
) -> str:
    """One result on one line. In the table it has a cell for each of the columns, if it has a score, after that of its
    practice where programs `practised`, and leaves out the word candidate."""
    tested, name = row.tested, "candidate " if columns is None else ""
    outcome = _outcome(row, digits, bare=bare)
    if tested.score is not None:
        outcome += (
            f" | {score_text(tested.practice, PRACTICE_DIGITS) if tested.practice is not None else '-'}" * practised
        )
        outcome += "".join(f" | {_cell(row, column)}" for column in columns or ())
    if not tested.candidate:
        return f"- {name}0: {outcome}: the first program"
    head = f"- {name}{tested.candidate} from {tested.parent}: {outcome}"
    deviation = "" if bare else in_short(tested.deviation, min(longest, LONGEST_DEVIATION))
    corrected = f" [{deviation}]" if deviation else ""
    return f"{head}: {what_of(row, longest)}{corrected}"


def _cell(row: Row, column: str) -> str:
    return f"{row.metrics[column]:g}" if column in row.metrics else "-"


def _left_out(context: Context, columns: Sequence[str]) -> str:
    """Which metrics have no column."""
    names = [one_line(name, LONGEST_METRIC) for name in context.columns if name not in columns]
    if not names or not columns:
        return ""
    listing = ", ".join(names[:MOST_LEFT_OUT])
    more = f" and {len(names) - MOST_LEFT_OUT} more" if len(names) > MOST_LEFT_OUT else ""
    return f" Metrics without a column: {listing}{more}."


def what_of(row: Row, longest: int) -> str:
    """What was tried: the idea, and where there is room the experiment."""
    idea = in_short(row.idea, longest)
    left = longest - len(idea) - len(AND)
    if idea and left < WORTH_SAYING:
        return idea
    experiment = gist(row.tested.experiment, left if idea else longest)
    return f"{idea}{AND}{experiment}" if idea else experiment


def line_of(row: Row, digits: int) -> Callable[[int], str]:
    """One result on one line, of a length that is given later, and with at most BRIEF characters of what was tried."""
    return lambda longest: row_text(row, digits, min(longest, BRIEF))


def _outcome(row: Row, digits: int, *, bare: bool = False) -> str:
    tested = row.tested
    same = f", exactly as {row.same_as}" if row.same_as is not None else ""
    if row.same_program is not None:
        same = f", same program as {row.same_program}"
    if tested.score is None:
        return f"{tested.outcome}{same}{f' ({one_line(tested.cause, 120)})' if tested.cause else ''}"
    gain = f", {gain_text(tested.gain)}" if tested.gain is not None and not row.over_zero else ""
    best = f" ({row.over_best:+.3g})" if row.over_best is not None and not bare else ""
    again = f" (again {score_text(tested.again, digits)})" if row.says_again and tested.again is not None else ""
    again = " (worse when evaluated again)" if row.doubted else again
    took = "" if bare and not row.slow else f", {seconds_text(tested.seconds) or 'not run again'}"
    return f"{score_text(tested.score, digits)}{again}{gain}{best}{same}{took}"


def _counts(context: Context, row_count: int) -> str:
    ends = f"; the run ends after {context.most}" if context.most is not None else ""
    if not context.tested:
        return f"Nothing has been tried yet{ends}{' candidates' if ends else ''}."
    causes = ", ".join(f"{cause} {times}" for cause, times in most_frequent(context.failures)[:6])
    failed = f" Without a score: {causes}." if causes else ""
    rest = context.tested - row_count
    hidden = f", {rest} not shown" if rest > 0 else ""
    return f"{context.tested} tried in all, {context.scored} with a score{hidden}{ends}.{failed}"


def list_levels(
    lines: Sequence[Callable[[int], str]],
    more: int = 0,
    what: str = "",
    singular: str = "",
    levels: tuple[tuple[int, int, int], ...] = LISTED,
    kept: int = 0,
) -> Levels:
    """A list of lines, each made for a longest length. `more` of them are not among these. `what` ends the sentence
    that counts those left out, `singular` where it is a single one. The first `kept` lines go with the whole list
    only."""

    def text(level: int) -> str | None:
        if not lines:
            return ""
        if level >= len(levels):
            return None
        count, long, short = levels[level]
        count = max(count, kept)
        remainder = more + max(0, len(lines) - count)
        texts = [line(long if place < FIRST else short) for place, line in enumerate(lines[:count])]
        ending = what if remainder > 1 else singular or what
        return "\n".join([*texts, *([f"{remainder} more{f' {ending}' if ending else ''}."] if remainder else [])])

    return text


def earlier_levels(earlier: LearnedBefore | None) -> Levels:
    """What the run had tried from which this one started. Its numbers are those of no candidates here."""
    if earlier is None or not earlier.results:
        return list_levels([])
    digits = digits_for([each.score for each in earlier.results if each.score is not None])

    def line(row: Row) -> Callable[[int], str]:
        return lambda longest: row_text(row, digits, min(longest, BRIEF), (), bare=True)

    lines = [
        line(
            Row(
                ExperimentResult(
                    each.candidate, 0, each.parent, None, each.what, *(each.outcome, each.score, each.gain), each.cause
                )
            )
        )
        for each in earlier.results
    ]
    rows = list_levels(lines, earlier.tested - len(lines), "of them are not shown", "of them is not shown")
    causes = ", ".join(f"{cause} {times}" for cause, times in most_frequent(earlier.failures)[:6])
    head = (
        f"Run {earlier.run} tried {earlier.tested} before this one began, {earlier.scored} "
        f"with a score{f' (without one: {causes})' if causes else ''}. Numbers and scores are those of that run and "
        f"count for nothing here: only its candidate {earlier.first} is here, as candidate 0."
    )

    def text(level: int) -> str | None:
        below = rows(level)
        return None if below is None else f"{head}\n{below}"

    return text


def lineage_levels(context: Context) -> Levels:
    """The changes that led to the parent with their gains, its own first. Then those that the table does not show."""
    chain = " from ".join(
        [
            *(
                f"{each.tested.candidate} ({gain_text(each.tested.gain) or each.tested.outcome}{_practice(each)})"
                for each in context.lineage
            )
        ]
        + [str(each.tested.parent or FIRST_PROGRAM) for each in context.lineage[-1:]]
    )
    table_candidates = _in_table(context)
    others = [row for row in context.lineage if row.tested.candidate not in table_candidates]
    rows = list_levels([_step_of(row) for row in others])

    def text(level: int) -> str | None:
        if not context.lineage:
            return ""
        below = rows(level)
        return None if below is None or (level and not others) else f"{chain}\n{below}".rstrip()

    return text


def _practice(row: Row) -> str:
    practice = row.tested.practice
    return "" if practice is None else f", in practice {score_text(practice, PRACTICE_DIGITS)}"


def _step_of(row: Row) -> Callable[[int], str]:
    return lambda longest: f"- candidate {row.tested.candidate}: {what_of(row, min(longest, BRIEF))}"


def failed_levels(context: Context, digits: int) -> Levels:
    """What failed on the parent and its line. Of what the table shows only the cause is said again."""
    table_candidates = _in_table(context)

    def line(row: Row) -> Callable[[int], str]:
        if row.tested.candidate in table_candidates:
            return lambda _: f"- candidate {row.tested.candidate}: {_outcome(row, digits)}"
        return line_of(row, digits)

    return list_levels([line(row) for row in context.failed])


def _in_table(context: Context) -> set[int]:
    """Candidates that the table usually has."""
    size = SIZES[USUAL]
    tops = {row.tested.candidate for row in context.best_rows[: size.best]}
    return {*tops, *(row.tested.candidate for row in _newest(context, tops)[: size.recent])}


def _newest(context: Context, excluded: Collection[int]) -> list[Row]:
    """The rows that are not `excluded`, the newest first."""
    rows = (row for row in (*context.best_rows, *context.recent_rows) if row.tested.candidate not in excluded)
    return sorted(rows, key=lambda row: -row.tested.candidate)


def ideas_levels(context: Context) -> Levels:
    """The untried ideas, with their numbers, and the latest that a person has ruled out."""
    lines: list[Callable[[int], str]] = [
        (lambda longest, idea=idea: f"- idea {idea.number}{_whose(idea, context)}: {in_short(idea.text, longest)}")
        for idea in context.ideas
    ]
    rows = list_levels(
        lines,
        context.untried - len(context.ideas),
        *("untried ideas are not shown", "untried idea is not shown"),
        kept=min(MOST_PINNED, sum(idea.number in context.pinned for idea in context.ideas)),
    )
    if not context.vetoed:
        return rows

    def text(level: int) -> str | None:
        below = rows(level)
        if below is None or (level and not lines):
            return None
        latest = context.vetoed[-MOST_VETOED:] if level < len(LISTED) - 1 else ()
        ruled_out = [
            f"- not idea {idea.number} (ruled out by a person): {in_short(idea.text, LISTED[level][2])}"
            for idea in reversed(latest)
        ]
        return "\n".join(part for part in (below, *ruled_out) if part)

    return text


def _whose(idea: KnownIdea, context: Context) -> str:
    """Whose idea it is, if not the advisor's, and which others say nearly the same."""
    if idea.number in context.pinned:
        return " (pinned by a person)"
    if idea.by_person:
        return " (from a person)"
    remarks = ["of the earlier run"] if idea.by_earlier_run else []
    if idea.number in context.close:
        remarks.append(f"close to candidate {context.close[idea.number]}")
    if like := context.like.get(idea.number):
        numbers = ", ".join(str(each.number) for each in like[:MOST_ALIKE])
        more = f" and {len(like) - MOST_ALIKE} more" if len(like) > MOST_ALIKE else ""
        remarks.append(f"much the same: {numbers}{more}")
    return f" ({'; '.join(remarks)})" if remarks else ""


def under_way_levels(context: Context) -> Levels:
    """What other threads are trying: the idea of each, in fewer words before any is left out."""
    lines = [_try_of(each) for each in context.under_way]
    rows = list_levels(lines, what="under way", levels=UNDER_WAY)

    def text(level: int) -> str | None:
        below = rows(level)
        if below is None or (level and not lines):
            return None
        return "\n".join(part for part in (below, _request_to_differ(context.asked, context.left)) if part)

    return text


def _try_of(each: OngoingTrial) -> Callable[[int], str]:
    def line(longest: int) -> str:
        idea = f"idea {each.idea}" if each.idea is not None else ""
        where = f"candidate {each.candidate} from {each.parent}" if longest > TITLE or not idea else ""
        return f"- {', '.join(part for part in (where, idea) if part)}: {gist(each.what, longest)}"

    return line


def _request_to_differ(others: int, left: int) -> str:
    """What keeps threads that are asked the same from choosing the same."""
    if not others or not left:
        return ""
    who = "Another thread is" if others == 1 else f"{others} other threads are"
    first = "the first idea that comes" if left == 1 else f"the first {left} ideas that come"
    return f"{who} being asked the same now. So that you differ, pass over {first} to mind, and choose another."
