"""The bottleneck of a run: the candidates per second that each resource allows.

Pure: stage seconds in, rates out. With T a rollout's seconds from lease to score, L a learning step's, S a push's:

    X_sync   = B / (E[max of B draws of T] + L + S)
    X_async <= min(threads / E[T], slots / E[evaluation], B / (L + S), (eta + 1) * X_sync)

The last term is what the staleness bound allows: at most eta + 1 groups are open while a group's slowest rollout runs.
With fewer threads than such leases a run stays below this term, and more threads bring it nearer. The policy `soft`
opens as many groups and waits for no slowest rollout: (eta + 1) * B / E[T]. `drop` opens one lease a thread and expired
rollouts need no learner, so it has neither of the last two terms. Waiting for an evaluation slot is not part of T,
because the slots have a term of their own. How many calls an implementer's provider allows at once is not known here:
waiting for it is part of T. The smallest term is the roofline and the bottleneck. Not a prediction of a run's speed:
`pace simulate` predicts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pace_async.registry.staleness_policies import policy_of

Term = Literal["threads", "evaluation slots", "learner", "staleness"]
ALIKE = 0.02
MANY_UNANSWERED = 0.1
"""From this share of calls without an answer on, no other advice is given."""
BUSY = 0.5
"""Threads that had work for less of their time are no bottleneck."""
_SHARING = "if evaluations that share this machine's processors do not slow each other down"
FEW_TIMES = 3.0
"""Room beyond this is shown as a factor, not in per cent."""


@dataclass(frozen=True, slots=True)
class Load:
    """A run's shape and its seconds. `rollouts` is a sample of T, of any size. `slots` is None if only the threads
    limit evaluations. The learner's seconds are 0 if nothing is trained. `unanswered` is the share of the newest
    calls of models over the network that got no answer: waits for them are part of T. `shares_processors`: an
    evaluation may use all processors of the machine, so how long it takes depends on how many run at once."""

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
    unanswered: float = 0.0
    shares_processors: bool = False


@dataclass(frozen=True, slots=True)
class Roofline:
    """Candidates per second: `limit`, the least of `terms`, and `binding`, its name. `open_leases` is how many leases
    the bound allows at once, None if there are at least as many threads. `below_a_group`: there are fewer threads than
    rollouts in a group. `unanswered` and `shares_processors` as in the load. `busy` is the share of the threads' time
    with a lease, None if it is not known."""

    limit: float
    binding: Term
    terms: Mapping[Term, float]
    open_leases: int | None = None
    below_a_group: bool = False
    unanswered: float = 0.0
    shares_processors: bool = False
    busy: float | None = None

    @property
    def idle(self) -> bool:
        """Whether the threads are the least term and still had no work for most of the time, as at the beginning and
        the end of a short run. Then more of them would not help."""
        return self.binding == "threads" and self.busy is not None and self.busy < BUSY


def expected_maximum(sample: Sequence[float], draws: int) -> float:
    """The mean of the greatest of `draws` independent draws from the sample."""
    ordered, size = sorted(sample), len(sample)
    return sum(
        value * ((rank / size) ** draws - ((rank - 1) / size) ** draws) for rank, value in enumerate(ordered, start=1)
    )


def roofline(load: Load) -> Roofline | None:
    """The roofline of a load, None before the first rollout."""
    if not load.rollouts:
        return None
    mean = sum(load.rollouts) / len(load.rollouts)
    terms: dict[Term, float] = {}
    if mean > 0:
        terms["threads"] = load.threads / mean
    if load.slots is not None and load.evaluation > 0:
        terms["evaluation slots"] = load.slots / load.evaluation
    policy = policy_of(load.policy)
    most = (load.bound + 1) * load.group_size if load.trains and policy.counts_running else 0
    if most:
        step = load.learning + load.push
        if step > 0:
            terms["learner"] = load.group_size / step
        slowest = expected_maximum(load.rollouts, load.group_size) + step
        cycle = slowest if policy.waits_for_slowest else mean
        if cycle > 0:
            terms["staleness"] = most / cycle
    if not terms:
        return None
    binding = min(terms, key=lambda term: terms[term])
    below = load.threads < load.group_size
    open_leases = most if load.threads < most else None
    return Roofline(terms[binding], binding, terms, open_leases, below, load.unanswered, load.shares_processors)


def advice(limits: Roofline, bound: int) -> str:
    """What would help, in one sentence, and how far, until the next bottleneck. The number of threads is
    that of islands and stays on a resume."""
    if limits.unanswered >= MANY_UNANSWERED:
        return (
            f"{100 * limits.unanswered:.0f} % of the last calls got no answer, and rollouts waited for them: see to "
            "the service first (`pace doctor`)."
        )
    if limits.idle:
        return f"Threads were idle {100 * (1 - (limits.busy or 0.0)):.0f} % of the time: more would not help."
    room = _until_next(limits, ", up to {} more", ", up to {} times as many candidates")
    if alike := _alike(limits):
        return f"{alike.capitalize()} are equal bottlenecks: only more of each would help."
    match limits.binding:
        case "threads" if limits.shares_processors:
            return f"More threads would help, in a new run, {_SHARING}."
        case "threads":
            return f"More threads would help, in a new run{room}."
        case "staleness" if limits.open_leases is not None and limits.below_a_group:
            return (
                f"More threads would help, in a new run and up to {limits.open_leases}, and so would {_larger(bound)}."
            )
        case "staleness":
            threads = (
                "would not" if limits.open_leases is None else f"little, and not at all beyond {limits.open_leases}"
            )
            larger = _larger(bound)
            return f"{larger[0].upper()}{larger[1:]} would help{room}; more threads {threads}."
        case "evaluation slots" if limits.shares_processors:
            return f"More evaluation slots would help, {_SHARING}; more threads would not."
        case "evaluation slots":
            return f"More evaluation slots would help{room}; more threads would not."
        case "learner":
            return "The learner is the bottleneck: neither more threads nor a larger --max-staleness would help."


def _larger(bound: int) -> str:
    """The setting to raise. A bound of 0 may come from --sync."""
    return f"a larger --max-staleness than {bound}" if bound else "--async with a --max-staleness above 0"


def short_advice(limits: Roofline) -> tuple[str, ...]:
    """The bottleneck and what would help, from the longest form to the shortest. The last names only the bottleneck."""
    if limits.unanswered >= MANY_UNANSWERED:
        share = f"{100 * limits.unanswered:.0f} % of calls unanswered"
        return (f"{share}: see to the service first", share, "unanswered calls")
    if limits.idle:
        idle = f"threads idle {100 * (1 - (limits.busy or 0.0)):.0f} % of the time"
        return (f"{idle}: more would not help", idle, "threads idle")
    room, least = _until_next(limits, ", up to +{}", ", up to {}x"), _until_next(limits, ", +{}", ", {}x")
    if limits.shares_processors and limits.binding in ("threads", "evaluation slots"):
        room = least = ""  # how far is not known
    not_threads = "more threads would not help"
    if alike := _alike(limits):
        return (f"{alike} alike: only more of each would help", f"{alike} alike", limits.binding)
    match limits.binding:
        case "threads":
            forms = (
                f"threads: more of them, in a new run, would help{room}",
                f"threads: more of them would help{room}",
                f"threads: more would help{least}",
            )
        case "staleness" if limits.open_leases is not None and limits.below_a_group:
            either = f"staleness: more threads, up to {limits.open_leases}"
            forms = (f"{either}, would help, or a larger --max-staleness", either)
        case "staleness":
            raised = f"staleness: raise --max-staleness{room}"
            few = not_threads if limits.open_leases is None else "more threads help little"
            forms = (f"{raised}; {few}", raised, f"staleness: raise bound{least}")
        case "evaluation slots":
            more = f"evaluation slots: more would help{room}"
            forms = (f"{more}; {not_threads}", more, f"evaluation slots: more{least}")
        case "learner":
            forms = (f"learner: {not_threads}, nor would a larger --max-staleness", f"learner: {not_threads}")
    return (*forms, limits.binding)


def _alike(limits: Roofline) -> str:
    """The names of the terms within ALIKE of the smallest, empty if there is only one."""
    near = [term for term, value in limits.terms.items() if value <= (1 + ALIKE) * limits.limit]
    return " and ".join(near) if len(near) > 1 else ""


def _until_next(limits: Roofline, words: str, several: str) -> str:
    """How far the next term lies above the least: `words` has room for per cent, `several` for a factor."""
    rest = [value for term, value in limits.terms.items() if term != limits.binding]
    if not rest:
        return ""
    times = min(rest) / limits.limit
    return words.format(f"{100 * (times - 1):.0f} %") if times <= FEW_TIMES else several.format(f"{times:.0f}")
