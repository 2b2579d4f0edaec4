"""Facts before a program exists: a lease opens, an island may act, the advisor decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pace_async.events.literals import Action, Purpose
from pace_async.frozen_values import fast_init


@fast_init
@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Completion tokens [start, end) were sampled by weight version `version`."""

    version: int
    start: int
    end: int


@fast_init
@dataclass(frozen=True, slots=True)
class AdvisorCall:
    """One prompt and one sampled answer. `logprobs[i]` is the log-probability, in nats, at which
    `completion_ids[i]` was sampled (temperature applied). `spans` cover [0, len(completion_ids)). `prompt` is the
    question of an advisor that is asked over the network. Its tokens are not known, so there are no ids and no spans.
    `words`: what a word of this prompt and this answer stands for, where several words of a catalogue share a token.
    `text` holds the words that are meant."""

    purpose: Purpose
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    spans: tuple[TokenSpan, ...]
    text: str
    seconds: float
    prompt: str | None = None
    words: Mapping[str, str] = field(default_factory=dict[str, str])


@fast_init
@dataclass(frozen=True, slots=True)
class IdeaNote:
    """An idea of an island's pool after assessment. `known` is true if it was merged into the existing idea `number`:
    the advisor called it known, or the wording was equal."""

    number: int
    description: str
    known: bool


@fast_init
@dataclass(frozen=True, slots=True)
class LeaseOpened:
    """Permission to make one rollout. It may be trained by update `deadline` at the latest. `migrant` is the candidate
    that will be its parent, of another island or pinned by a person. None: the island chooses among its own."""

    lease: int
    island: int
    deadline: int
    version: int
    at: float
    migrant: int | None = None


@dataclass(frozen=True, slots=True)
class IdeaTaken:
    """An idea from another island: `number` is its number here, `origin` its number there."""

    number: int
    description: str
    origin: int


@dataclass(frozen=True, slots=True)
class IslandActed:
    """An island that had stopped improving acted as `lease` opened.

    backtrack: the island returns to the best program and the ideas of `snapshot` in its history (0 is the oldest).
    Later ideas are set aside for `stay` rollouts. `candidate` is that program. crossover: the island takes in `ideas`
    of island `partner`, as of the end of the partner's lease `as_of`, and starts `lease` from the partner's best
    program, `candidate`. The reasons: `momentum` after `rollouts` since the last action, `progress` in [0, 1], the best
    other island's progress `rival` (None if no other has any), and the `probability` of the drawn action."""

    lease: int
    island: int
    action: Action
    candidate: int
    snapshot: int | None
    stay: int
    partner: int | None
    as_of: int | None
    ideas: tuple[IdeaTaken, ...]
    momentum: float
    rollouts: int
    progress: float
    rival: float | None
    probability: float
    at: float


@fast_init
@dataclass(frozen=True, slots=True)
class Advised:
    """The advisor's decision: the parent, which is the one it saw or the base that it named, its calls, the ideas, the
    chosen experiment.

    `experiment` is None if the answer could not be parsed. Then the `outcome` of the following Evaluated is
    "unparsed". `covers` are numbers of other ideas that need no experiment any more, by the advisor's word."""

    lease: int
    island: int
    parent: int
    calls: tuple[AdvisorCall, ...]
    ideas: tuple[IdeaNote, ...]
    idea: int | None
    experiment: str | None
    at: float
    covers: tuple[int, ...] = ()
