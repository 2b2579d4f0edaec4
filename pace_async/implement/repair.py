"""Whether a model that failed is shown its error and asked again. Pure.

    compile    an answer of which no program could be made, or one that does not compile: `compile_tries` in a row
    evaluate   a program that ended with an error in its own code, or gave what is no output: `evaluate_tries` programs

Invariant: asked again is only who can mend what is wrong by reading code. So nothing that hangs on the machine (a
timeout, memory that ran out, too much output), nothing that looked like cheating, no refusal; and no answer that left
the program as it was, because then the experiment, not the code, asked for nothing.
"""

from collections.abc import Sequence

from pace_async.config import Repair
from pace_async.events import ImplementerTry, Outcome
from pace_async.implement.complaint import is_error_in_code

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
        "empty_block",
        "markers_in_block",
        "syntax_error",
        "program_too_long",
        "too_much_work",
    }
)
"""Kinds of faults of an answer that are shown to its author."""


def is_repairable(outcome: Outcome, detail: str) -> bool:
    """Whether a program that was evaluated so can be mended by who reads its error."""
    return outcome == "invalid_score" or (outcome == "candidate_error" and is_error_in_code(detail))


def asks_again(tries: Sequence[ImplementerTry], limits: Repair) -> bool:
    """Whether the model is asked once more, after the last of `tries` (at least one; oldest first) has failed: in its
    evaluation, where it has one, else as an answer."""
    last = tries[-1]
    if last.evaluation is not None:
        evaluated = sum(one.evaluation is not None for one in tries)
        return evaluated < limits.evaluate_tries and is_repairable(last.evaluation, last.evaluation_detail)
    failed = 0
    for one in reversed(tries):
        if one.evaluation is not None:
            break
        failed += 1
    return failed < limits.compile_tries and last.outcome in UNUSABLE


def program_to_change(parent: str, tries: Sequence[ImplementerTry]) -> str:
    """What the next answer changes: the newest program that a try made, be it one that does not compile, else the
    parent's."""
    return next((one.program for one in reversed(tries) if one.program is not None), parent)
