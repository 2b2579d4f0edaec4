"""What a run takes over from another one as it begins, besides programs and weights."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pace_async.events.people import IdeaGiven


@dataclass(frozen=True, slots=True)
class EarlierResult:
    """A result of the other run, by its numbers of candidates. `what` was tried, in one line, and `cause` as models may
    be told it. Without a score `outcome` and `cause` say why."""

    candidate: int
    parent: int
    what: str
    outcome: str
    score: float | None
    gain: float | None
    cause: str


@dataclass(frozen=True, slots=True)
class LearnedBefore:
    """The run began with what the run called `run` had learned. `first` is its candidate that is candidate 0 here.
    `results` are its best ones, then its latest, of `tested` in all, of which `scored` have a score. `failures` counts
    the others. `programs` has the first candidate of each program by hash. `ideas` are untried, the oldest first.
    `notes` is its page, empty without one. `edits` are (kind of target, option, gains, others) of its bandit."""

    run: str
    first: int
    at: float
    results: tuple[EarlierResult, ...] = ()
    tested: int = 0
    scored: int = 0
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    programs: Mapping[str, int] = field(default_factory=dict[str, int])
    ideas: tuple[str, ...] = ()
    notes: str = ""
    edits: tuple[tuple[str, str, int, int], ...] = ()

    @property
    def given(self) -> Iterator[IdeaGiven]:
        """Its ideas with numbers of this run. They are in no inbox, so their entries are below 0."""
        for entry, text in enumerate(self.ideas, start=-len(self.ideas)):
            yield IdeaGiven(entry, text, 0, self.at)

    @property
    def in_words(self) -> str:
        """What it comes to, for people."""
        parts = (
            f"{self.tested} results" * bool(self.tested),
            f"{len(self.ideas)} untried ideas" * bool(self.ideas),
            "its notes" * bool(self.notes),
            f"counts of {len(self.edits)} kinds of edits" * bool(self.edits),
        )
        return f"what run {self.run} learned: {', '.join(part for part in parts if part) or 'nothing'}"
