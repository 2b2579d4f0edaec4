"""What limits a run: candidates per second against each thing that could be the bottleneck.

Pure: stage seconds in, limits out. With T a rollout's seconds from lease to score, L a learning step's, S a push's:

    X_sync   = B / (E[max of B draws of T] + L + S)
    X_async <= min(threads / E[T], slots / E[evaluation], B / (L + S), (eta + 1) * X_sync)

The last term is what the staleness bound allows: at most eta + 1 groups are open while the slowest of one is awaited.
With fewer threads than such leases it lies above what can be reached, and more threads come nearer to it. The policy
`soft` opens as many but waits for no slowest one: (eta + 1) * B / E[T]. `drop` opens as many as there are threads, and
what it throws away needs no learner: neither of the last two terms is there.
Waiting for an evaluation slot is not part of T, because the slots have a term of their own. How many calls an
implementer's provider allows at once is not known here: waiting for it is part of T.
The smallest term is the roofline, and binds. Not a prediction of what a run reaches: `pace simulate` is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Term = Literal["threads", "evaluation slots", "learner", "staleness"]
ALIKE = 0.02
FEW_TIMES = 3.0
"""Room beyond this is said as a factor, not in per cent."""


@dataclass(frozen=True, slots=True)
class Load:
    """A run's shape and its seconds. `rollouts` is a sample of T, of any size; `slots` is None where evaluations are
    not limited but by the threads. The learner's seconds are 0 where nothing is trained."""

    threads: int
    group_size: int
    bound: int
    rollouts: Sequence[float]
    evaluation: float
    learning: float = 0.0
    push: float = 0.0
    slots: int | None = None
    trains: bool = True
    policy: str = "pace"


@dataclass(frozen=True, slots=True)
class Roofline:
    """Candidates per second: the least of `terms`, and which it is. `open_leases` are those that the bound allows
    at once, None where there are as many threads; `below_a_group` says that there are fewer threads than a group has
    rollouts."""

    limit: float
    binding: Term
    terms: Mapping[Term, float]
    open_leases: int | None = None
    below_a_group: bool = False


def expected_maximum(sample: Sequence[float], draws: int) -> float:
    """The mean of the greatest of `draws` independent draws from the sample."""
    ordered, size = sorted(sample), len(sample)
    return sum(
        value * ((rank / size) ** draws - ((rank - 1) / size) ** draws) for rank, value in enumerate(ordered, start=1)
    )


def roofline(load: Load) -> Roofline | None:
    """The limits; None before the first rollout."""
    if not load.rollouts:
        return None
    mean = sum(load.rollouts) / len(load.rollouts)
    terms: dict[Term, float] = {}
    if mean > 0:
        terms["threads"] = load.threads / mean
    if load.slots is not None and load.evaluation > 0:
        terms["evaluation slots"] = load.slots / load.evaluation
    most = (load.bound + 1) * load.group_size if load.trains and load.policy != "drop" else 0
    if most:
        step = load.learning + load.push
        if step > 0:
            terms["learner"] = load.group_size / step
        slowest = expected_maximum(load.rollouts, load.group_size) + step
        cycle = slowest if load.policy == "pace" else mean
        if cycle > 0:
            terms["staleness"] = most / cycle
    if not terms:
        return None
    binding = min(terms, key=lambda term: terms[term])
    below = load.threads < load.group_size
    return Roofline(terms[binding], binding, terms, most if load.threads < most else None, below)


def advice(found: Roofline, bound: int) -> str:
    """What would help, in one sentence. Says how far it would, until the next limit."""
    room = _until_next(found, ", up to {} more", ", up to {} times as many candidates")
    if alike := _alike(found):
        return f"{alike.capitalize()} limit it alike: only more of each would help."
    match found.binding:
        case "threads":
            return f"More threads would help{room}."
        case "staleness" if found.open_leases is not None and found.below_a_group:
            return f"More threads would help, up to {found.open_leases}, and so would {_larger(bound)}."
        case "staleness":
            threads = "would not" if found.open_leases is None else f"little, and not at all beyond {found.open_leases}"
            larger = _larger(bound)
            return f"{larger[0].upper()}{larger[1:]} would help{room}; more threads {threads}."
        case "evaluation slots":
            return f"More evaluation slots would help{room}; more threads would not."
        case "learner":
            return "The learner is the limit: neither more threads nor a larger --max-staleness would help."


def _larger(bound: int) -> str:
    """A bound of 0 may be that of --sync."""
    return f"a larger --max-staleness than {bound}" if bound else "--async with a --max-staleness above 0"


def short_advice(found: Roofline) -> tuple[str, ...]:
    """What binds, then what would help, in fewer and fewer words; the last is what binds and no more."""
    room, least = _until_next(found, ", up to +{}", ", up to {}x"), _until_next(found, ", +{}", ", {}x")
    not_threads = "more threads would not help"
    if alike := _alike(found):
        return (f"{alike} alike: only more of each would help", f"{alike} alike", found.binding)
    match found.binding:
        case "threads":
            said = (f"threads: more of them would help{room}", f"threads: more would help{least}")
        case "staleness" if found.open_leases is not None and found.below_a_group:
            either = f"staleness: more threads, up to {found.open_leases}"
            said = (f"{either}, would help, or a larger --max-staleness", either)
        case "staleness":
            raised = f"staleness: raise --max-staleness{room}"
            few = not_threads if found.open_leases is None else "more threads help little"
            said = (f"{raised}; {few}", raised, f"staleness: raise bound{least}")
        case "evaluation slots":
            more = f"evaluation slots: more would help{room}"
            said = (f"{more}; {not_threads}", more, f"evaluation slots: more{least}")
        case "learner":
            said = (f"learner: {not_threads}, nor would a larger --max-staleness", f"learner: {not_threads}")
    return (*said, found.binding)


def _alike(found: Roofline) -> str:
    """The terms within ALIKE of the least, if they are several."""
    near = [term for term, value in found.terms.items() if value <= (1 + ALIKE) * found.limit]
    return " and ".join(near) if len(near) > 1 else ""


def _until_next(found: Roofline, words: str, several: str) -> str:
    """By how much the next limit lies above the least: `words` says it in per cent, `several` as a factor."""
    rest = [value for term, value in found.terms.items() if term != found.binding]
    if not rest:
        return ""
    times = min(rest) / found.limit
    return words.format(f"{100 * (times - 1):.0f} %") if times <= FEW_TIMES else several.format(f"{times:.0f}")
