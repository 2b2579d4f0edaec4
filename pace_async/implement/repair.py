"""Decides whether a model that failed sees its error and tries again. Pure.

    compile    the answer makes no program, or one that does not compile: `compile_tries` in a row
    evaluate   the program ends with an error in its own code, or its output is invalid: `evaluate_tries` programs

Invariant: a model tries again only if a reader of the code can correct the error. Excluded are errors that depend on
the machine (a timeout, exhausted memory, too much output), suspected cheating, refusals, and answers that leave the
program unchanged, because then the experiment required no change.
"""

from collections.abc import Sequence

from pace_async.config import RepairConfig
from pace_async.events import ImplementerTry, Outcome
from pace_async.events.complaint import is_error_in_code

UNUSABLE = frozenset(
    {
        "empty_answer",
        "length",
        "answer_too_long",
        "no_code_block",
        "several_code_blocks",
        "unclosed_code_block",
        "wrong_language",
        "mixed_answer",
        "malformed_edit",
        "empty_search",
        "search_not_found",
        "search_ambiguous",
        "edit_leaves_block",
        "edits_overlap",
        "hidden_lines_lost",
        "empty_block",
        "markers_in_block",
        "syntax_error",
        "no_entry",
        "program_too_long",
        "too_much_work",
        "not_text",
        "no_path",
        "no_such_file",
        "file_not_open",
        "bad_path",
        "diff_not_applied",
    }
)
"""Kinds of answer faults that are shown to the answer's author."""


def is_repairable(outcome: Outcome, detail: str) -> bool:
    """Whether a reader of the error can correct a program with this outcome."""
    return outcome == "invalid_score" or (outcome == "candidate_error" and is_error_in_code(detail))


def asks_again(tries: Sequence[ImplementerTry], limits: RepairConfig) -> bool:
    """Whether the model tries once more after the last of `tries` (at least one, oldest first) failed: in its
    evaluation if it has one, else as an answer."""
    last = tries[-1]
    if last.evaluation is not None:
        evaluated = sum(attempt.evaluation is not None for attempt in tries)
        return evaluated < limits.evaluate_tries and is_repairable(last.evaluation, last.evaluation_detail)
    failed = 0
    for attempt in reversed(tries):
        if attempt.evaluation is not None:
            break
        failed += 1
    return failed < limits.compile_tries and last.outcome in UNUSABLE


def program_to_change(parent: str, tries: Sequence[ImplementerTry]) -> str:
    """The program that the next answer changes: the newest program of a try, even if it does not compile, else the
    parent."""
    return next((attempt.program for attempt in reversed(tries) if attempt.program is not None), parent)
