"""What reading a run gives, as typed dictionaries: the results of Python's functions, and what `--json` prints.

Times are seconds since the epoch, durations seconds, costs USD (None where a price is not known), shares 0 to 1.
Keys are added, never renamed.
"""

from collections.abc import Mapping
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from pace_async.events import Cause, Kind, Outcome
from pace_async.interface.evaluating import StageResult

Waiting = TypedDict("Waiting", {"for": str, "since": float | None})
"""What a whole run waits for, and since when."""


class Failing(TypedDict):
    """A stage that fails at every try."""

    stage: str
    why: str
    since: float


class Rollback(TypedDict):
    """A version that repeats an earlier one."""

    version: int
    restored: int
    group: int | None
    at: float


class ImplementerTally(TypedDict):
    """The results of one model's programs for one kind of experiment, where a bandit chooses among several."""

    kind: str
    model: str
    rollouts: int
    gains: int
    usd: float | None


class NodeUsed(TypedDict):
    """What ran on one machine of a cluster: attempts, and among them those that the machine failed."""

    node: str
    machine: str | None
    attempts: int
    lost: int
    seconds: float
    queue_seconds: float
    last_at: float


class Status(TypedDict):
    """How far a run is. `candidates` leaves out the task's own program. `admitted` leases are the sum of `trained`,
    `skipped`, `aborted`, `expired` and `open`. `updates` counts ended groups. Speeds are candidates an hour, None
    before the first candidate. Costs are None where the price of a model is not known, and `spend_known_usd` is what
    the others cost. Shares of answers that parse are None for an advisor without a model. `evaluation_saved` is the
    estimated share of the seconds of evaluations that early ends saved, None if none ended early. `repeats` counts the
    scores of programs that were measured again, but for the first of each."""

    candidates: int
    scored: int
    outcomes: dict[Outcome, int]
    causes: dict[Cause, int]
    updates: int
    versions_published: int
    best_score: float | None
    best_fresh_score: float | None
    best_known: float | None
    of_best_known: float | None
    admitted: int
    trained: int
    skipped: int
    aborted: int
    expired: int
    open: int
    max_trained_staleness: int
    spend_usd: float | None
    spend_known_usd: float
    spend_by_role: dict[str, float | None]
    state: str
    reason: str
    driven: bool
    trust: str
    waiting: Waiting | None
    failing: list[Failing]
    few_scores: str | None
    rows_lost: str | None
    longest_stall_ms: float | None
    longest_turn_cpu_ms: float | None
    nodes: list[NodeUsed]
    evaluation_saved: float | None
    repeats: int
    groups_trained: int
    groups_skipped: int
    rollbacks: list[Rollback]
    steps_shortened: int
    steps_undone: int
    implementers: list[ImplementerTally]
    slot_utilisation: float | None
    candidates_per_hour: float | None
    roofline: float | None
    binding: str | None
    advice: str | None
    parse_rate: float | None
    parse_rate_lately: float | None
    parse_share: str
    parse_alarm: str | None


ShownOutcome = Outcome | Literal["banned"]
"""A candidate that a person has banned keeps its score."""


class _Program(TypedDict):
    """`score` is the mean of so many `evaluations`, with the `standard_error` of the mean, None for a single one."""

    candidate: int
    island: int | None
    parent: int | None
    outcome: ShownOutcome
    score: float | None
    reward: float
    mechanism: str | None
    detail: str
    seconds: float
    memoised: bool
    at: float
    program_hash: str | None
    lease_state: str | None
    lease_stage: str | None
    admitted_version: int | None
    policy_version: int | None
    group_number: int | None
    update_number: int | None
    staleness: int | None
    advantage: float | None
    idea_number: int | None
    idea: str | None
    experiment: str | None
    cost_usd: float | None
    evaluations: int
    standard_error: float | None


class BestProgram(_Program):
    """The best candidate. `fresh_score` is that on the instances that confirmed it, None if it was not tried. In a
    command task, and where scores are noisy, it is the score by which the best is chosen, `noise` is what two
    evaluations of one program usually differ by, and `equal` are the candidates that differ from the best by no more.
    Elsewhere these are None and empty."""

    program: str
    fresh_score: float | None
    noise: float | None
    equal: list[int]
    best_known: float | None
    of_best_known: float | None


class FrontProgram(TypedDict):
    """A program that no other one surpasses in every objective. `violation` is by how much it breaks constraints."""

    candidate: int
    score: float
    violation: float
    metrics: dict[str, float]


class FrontShown(TypedDict):
    """The front of a run with several objectives, the best score first. `hypervolume` is the share of the box between
    the bounds that it dominates. `objectives` say of each metric which way it is better."""

    objectives: dict[str, str]
    hypervolume: float
    front: list[FrontProgram]


class ShownStage(StageResult):
    """A candidate's result in a cheap stage of its task's cascade, counted from 1."""

    number: int


class ShownFreshScore(TypedDict):
    """One try of a claimed best on the instances of a fresh seed. `held`: this try confirms the claim. `metrics` and
    `own_metrics` stand here only where the task has several objectives."""

    seed: int
    claimed: float
    outcome: Outcome
    score: float | None
    own_score: float | None
    held: bool
    seconds: float
    metrics: NotRequired[Mapping[str, float] | None]
    own_metrics: NotRequired[Mapping[str, float] | None]


class AdvisorCallShown(TypedDict):
    """One answer of the advisor. `versions` are [version, first token, end] of its parts."""

    purpose: str
    text: str
    prompt_tokens: int
    completion_tokens: int
    versions: list[tuple[int, int, int]]
    seconds: float


class PaidCall(TypedDict):
    """One call of a model that is paid."""

    model: str
    outcome: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    seconds: float


class ChosenImplementer(TypedDict):
    """The model that a bandit chose, by the sampled rate of gains and the expected cost of a rollout."""

    lease: int
    kind: Kind
    model: str
    rate: float
    usd: float | None
    at: float


class ShownTry(TypedDict):
    """One answer of a model to an experiment. `program` is set if the answer gave one, else `answer` is the text."""

    number: int
    model: str
    outcome: str
    detail: str
    program: str | None
    answer: str | None
    evaluation: Outcome | None
    evaluation_detail: str
    evaluation_feedback: str | None


class ShownPractice(TypedDict):
    """What the last program of a lease did on practice instances. `printed` is the end of what it printed there."""

    lease: int
    program_digest: str
    outcome: Outcome
    detail: str
    score: float | None
    metrics: dict[str, float]
    printed: str
    seconds: float
    memoised: bool
    at: float


class ShownCandidate(_Program):
    """One candidate, with all that led to it. `queue_seconds` is its wait for a slot. `curve` is what was reported of
    its evaluation, [step, value] each, by the trusted scorer or by its own evaluator. `mark` is what a person said of
    it last, ban or pin, and `mark_after` the newest lease when the run took that word in."""

    program: str | None
    metrics: dict[str, float]
    queue_seconds: float | None
    feedback: str | None
    practice: ShownPractice | None
    cascade: list[ShownStage]
    fresh_scores: list[ShownFreshScore]
    curve: list[tuple[int, float]]
    reported_by: str | None
    calls: list[AdvisorCallShown]
    implementer_calls: list[PaidCall]
    advisor_calls: list[PaidCall]
    chosen: ChosenImplementer | None
    tries: list[ShownTry]
    mark: str | None
    mark_after: int | None


class GivenIdeaShown(TypedDict):
    """An idea that a person put into a run, or marked there. `after`: the newest lease when the run took it in, None if
    it has not yet. `tried`: how many candidates tried it out. `candidate` and `score` are those of the
    best, None without a score. `mark`: pin or veto, None without one. `mark_after`: the newest lease when the run took
    that word in."""

    number: int
    text: str
    at: float
    after: int | None
    tried: int
    candidate: int | None
    score: float | None
    mark: str | None
    mark_after: int | None


class GivenNoteShown(TypedDict):
    """The page that a person wrote last, empty without one or where it was taken away. `after`: the newest lease when
    the run took it in, None if it has not yet. Behind a barrier it is shown from the end of the group `from_group`
    on."""

    text: str
    at: float | None
    after: int | None
    from_group: int | None


class NotesShown(TypedDict):
    """A page of what worked, what failed and what is open, as a model wrote it. It was written from so many complete
    `candidates`, of which `newest` is the last. Behind a barrier it is shown from the end of the group `from_group`
    on."""

    number: int
    candidates: int
    newest: int
    from_group: int | None
    text: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    at: float


class ListedRun(TypedDict):
    """A run of a folder or a database. `driven`: whether a process drives it, None for a database. One that cannot be
    read has its `problem`, and None elsewhere. One of the index whose folder is not there has the state "gone"."""

    run: str
    task: str | None
    state: str | None
    reason: str | None
    candidates: int | None
    updates: int | None
    best_score: float | None
    direction: str | None
    spend_usd: float | None
    spend_known_usd: float | None
    made_at: float | None
    last_at: float | None
    folder: str | None
    driven: bool | None
    problem: str | None
    age_seconds: float | None
