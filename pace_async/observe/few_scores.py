"""Says why hardly any candidate of a run has a score, and what to do.

Pure: counts in, one sentence out. It is said from ENOUGH candidates on, while fewer than FEW_SCORED of them have a
score. The causes of a resumed run come from its rows, so it says the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pace_async.events.causes import FEW_SCORED, Cause

ENOUGH = 16

_LOOK = "`pace show {run} CANDIDATE` shows one"
_SAID: Mapping[Cause, tuple[str, str]] = {
    "unparsed": (
        "the advisor's answer does not have the format that was asked for",
        "begin a new run without --advisor, or with a larger model",
    ),
    "cut_off": (
        "the advisor's answer was cut off at its longest length",
        "raise advisor.max_tokens, or advisor.max_tokens_by_call for one kind of call; {look}",
    ),
    "unknown_idea": (
        "the experiment names no edit of the task's catalogue",
        "begin a new run without --advisor, so that one is chosen that reads the catalogue",
    ),
    "not_implemented": (
        "no program could be made of the experiment",
        "name another model by --implementer, or by --advisor if that writes the code; {look}",
    ),
    "unchanged": (
        "the program does the same as its parent",
        "give the catalogue more options, or let another model write the code",
    ),
    "build_failed": (
        "the program could not be built",
        "say in coding_requirements what a program must keep, and make sure that every option of the catalogue "
        "compiles; "
        "{look}",
    ),
    "crashed": (
        "the program ended with an error",
        "let the seed program work with every option of the catalogue; {look}",
    ),
    "timeout": ("the program took too long", "raise timeout_s in task.yaml, or make the instances smaller"),
    "out_of_memory": ("the program ran out of memory", "raise memory_mb in task.yaml"),
    "output_overflow": ("the program printed or returned too much", "raise output_mb in task.yaml"),
    "invalid_score": (
        "the evaluator refused what the program returned",
        "say in coding_requirements what a valid output is; {look}",
    ),
    "suspicious": (
        "the score did not hold on fresh instances",
        "let `instances` return more of them, or larger ones",
    ),
    "below_threshold": (
        "a cheap stage of the cascade stopped the program",
        "set the stage's threshold to a score that the seed program reaches",
    ),
    "pruned": (
        "its evaluation fell behind the earlier ones and was stopped",
        "set evaluation.prune to none, or raise evaluation.prune_margin",
    ),
}
"""What happened to the candidate, and the remedy."""


@dataclass(frozen=True, slots=True)
class FewScores:
    """Why hardly any candidate has a score: the most frequent cause, the whole sentence, and its beginning for a narrow
    screen."""

    cause: Cause
    sentence: str
    short: str


def few_scores(candidates: int, scored: int, causes: Mapping[Cause, int], run: str = "RUN") -> FewScores | None:
    """None while there is nothing to say. `causes` counts the candidates without a score. `run` is the run's argument
    of commands."""
    if candidates < ENOUGH or scored >= FEW_SCORED or not causes:
        return None
    cause = max(causes, key=lambda kind: causes[kind])
    reason, cure = _SAID[cause]
    have = f"{'One' if scored else 'None'} of {candidates} candidates has a score"
    cure = cure.format(look=_LOOK.format(run=run))
    return FewScores(cause, f"{have}, {causes[cause]} times because {reason}: {cure}.", f"{have}: {reason}")
