"""Why a candidate has no score: its outcome (`literals.Outcome`), divided where one outcome has several remedies.

Pure. The beginnings of details are stated here once, for the code that writes them and for `cause_of`.
"""

from typing import Literal, NamedTuple

from pace_async.programs.languages import BUILD_FAILED

Cause = Literal[
    "unparsed",
    "cut_off",
    "unknown_idea",
    "not_implemented",
    "unchanged",
    "build_failed",
    "crashed",
    "timeout",
    "out_of_memory",
    "output_overflow",
    "invalid_score",
    "suspicious",
    "below_threshold",
    "pruned",
]

Answers = Literal["parsed", "unparsed", "cut_off"]
"""What became of a rollout's answers. cut_off: one did not end within its longest length, so it was not parsed."""


class CandidateAnswers(NamedTuple):
    """A candidate and what became of its answers."""

    candidate: int
    answers: Answers


FEW_SCORED = 2
"""Causes are counted while fewer candidates have a score."""
NAMES_NO_MECHANISM = "the experiment must name one mechanism"
NAMES_NO_OPTION = "must be set to one of"
"""Details of experiments that name no edit of the catalogue."""
DID_NOT_END = "did not end within"
"""In the detail of an answer that was cut off at its longest length."""

_ALIKE: dict[str, Cause] = {
    "unparsed": "unparsed",
    "not_implemented": "not_implemented",
    "unchanged": "unchanged",
    "candidate_error": "crashed",
    "timeout": "timeout",
    "out_of_memory": "out_of_memory",
    "output_overflow": "output_overflow",
    "invalid_score": "invalid_score",
    "suspicious": "suspicious",
    "below_threshold": "below_threshold",
    "pruned": "pruned",
}


def answers_of(outcome: str, detail: str) -> Answers:
    """What became of the answers of a candidate with this outcome."""
    if outcome != "unparsed":
        return "parsed"
    return "cut_off" if DID_NOT_END in detail else "unparsed"


def cause_of(outcome: str, detail: str) -> Cause | None:
    """The cause of a candidate without a score, None for one with a score. A fault of the machine is the
    outcome of no candidate."""
    if outcome == "not_implemented" and (detail.startswith(NAMES_NO_MECHANISM) or NAMES_NO_OPTION in detail):
        return "unknown_idea"
    if answers_of(outcome, detail) == "cut_off":
        return "cut_off"
    if detail.startswith(BUILD_FAILED):
        return "build_failed"
    return _ALIKE.get(outcome)
