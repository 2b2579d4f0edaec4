"""Every setting of a run, one model per room, each with a sentence. Where their values come from: `configure`."""

import json
import re
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class _Room(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Stop(_Room):
    """When a run ends: whichever comes first."""

    candidates: int | None = Field(
        default=240, ge=1, description="Candidates evaluated; the default gives way where updates or minutes are set."
    )
    updates: int | None = Field(default=None, ge=1, description="Groups consumed, skipped ones too.")
    minutes: float | None = Field(default=None, gt=0, description="Wall-clock minutes of this process.")
    budget: float | None = Field(
        default=None, gt=0, description="USD spent on implementer calls, what calls in flight may cost included."
    )
    target: float | None = Field(default=None, description="A score at least this good.")

    @model_validator(mode="before")
    @classmethod
    def _default_gives_way(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "candidates" in given:
            return cast("Any", given)
        limits = cast("dict[str, Any]", given)
        other = any(limits.get(name) is not None for name in ("updates", "minutes"))
        return {**limits, "candidates": None} if other else limits


class Population(_Room):
    """Where everything that happens is written."""

    url: str | None = Field(
        default=None,
        description="A PostgreSQL database, as postgresql://USER@HOST/NAME; by default a SQLite file in the run's "
        "folder. The password comes from PGPASSWORD or ~/.pgpass.",
    )

    @field_validator("url")
    @classmethod
    def _no_password(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not re.match(r"postgres(ql)?://[^/?#]*/[^/]", url) or re.search(r"://[^/@]*:[^/@]*@|pass", url):
            raise ValueError("must be postgresql://USER@HOST/NAME; a password belongs into PGPASSWORD or ~/.pgpass")
        return url


class Search(_Room):
    """How candidates are proposed and kept."""

    threads: int = Field(default=8, ge=1, description="Search threads; each is one island.")
    ideas_kept: int = Field(default=5, ge=1, description="Ideas in an island's pool; the stalest is dropped.")
    trials_shown: int = Field(default=2, ge=0, le=50, description="Latest experiments shown under each idea.")
    summary_from: int = Field(
        default=20, ge=1, description="Experiments from which on an idea is shown by a summary and the latest of them."
    )
    members_kept: int = Field(default=100, ge=1, description="Programs an island keeps as possible parents.")
    parents: Literal["tournament", "puct", "map_elites", "top_k"] = Field(
        default="tournament",
        description="How an island chooses the program to change. tournament: the best of a few drawn among its best "
        "(PACEvolve). puct: the most promising of all it keeps, reached score against how often it was tried "
        "(TTT-Discover). map_elites: the best of one cell of a grid over what programs are like. top_k: one of its "
        "best, all alike.",
    )
    tournament_size: int = Field(default=2, ge=1, description="Programs drawn for a tournament of parents.")
    tournament_pool: int = Field(default=4, ge=1, description="The tournament draws among this many of the best.")
    migration: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Probability that the parent is the winner of a tournament among the best programs of all islands; "
        "else, and where the own one wins, `parents` chooses. 0: islands go on from their own programs alone.",
    )
    top_k: int = Field(default=4, ge=1, description="top_k chooses among this many of the best.")
    puct_exploration: float = Field(
        default=1.0, ge=0, description="How much puct favours what was tried less over what reached more."
    )
    grid_bins: int = Field(default=8, ge=1, description="Parts of each of the two features of map_elites.")
    backtracking: bool = Field(
        default=False,
        description="Whether an island that has stopped improving goes back along its own history or crosses over with "
        "another island (PACEvolve). Off: in 480 candidates it gained nothing, and longer runs are not measured.",
    )
    actions: Literal["both", "backtrack", "crossover"] = Field(
        default="both",
        description="What an island that acts may do; with crossover alone it may find nobody, and goes on.",
    )
    momentum_decay: float = Field(default=0.85, ge=0, lt=1, description="Share of an island's momentum that stays.")
    momentum_trigger: float = Field(
        default=0.001, ge=0, description="An island acts once its momentum is less than this."
    )
    action_interval: int = Field(
        default=15, ge=0, description="An island acts only after more rollouts than this since it last acted or began."
    )
    backtrack_stay: int = Field(
        default=5, ge=1, description="Rollouts that an island which went back makes before its later ideas return."
    )


class Staleness(_Room):
    """How old training data may be."""

    mode: Literal["async", "sync"] = Field(
        default="async", description="sync is async with bound 0 and as many threads as a group has rollouts."
    )
    max_staleness: int = Field(
        default=2,
        ge=0,
        description="Updates between the oldest token of a rollout and the step that trains it, at most.",
    )
    policy: Literal["pace", "soft", "drop"] = Field(
        default="pace",
        description="pace: hard bound, nothing thrown away. soft: trains in order of completion, so bounds the mean "
        "only. drop: discards what is too old, so wastes finished evaluations and starves slow ones.",
    )


class Advisor(_Room):
    """The model that decides what to try."""

    model: str = Field(default="tiny", description="A model directory, or tiny: the one in the package.")
    engine: str = Field(
        default="embedded", description="What serves it: embedded, vllm, or URLs of servers that run already, by comma."
    )
    transport: Literal["file", "nccl"] = Field(
        default="file",
        description="How a new version gets to vLLM. file: it reads what the learner wrote. nccl: the learner sends it "
        "from GPU to GPU while the server generates; needs vLLM on a GPU of its own, on this machine.",
    )
    temperature: float = Field(default=1.0, gt=0, description="Sampling temperature; the learner assumes the same.")
    max_tokens: int = Field(default=256, ge=8, description="Longest answer, in tokens.")
    max_prompt_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Longest prompt, in tokens of the advisor; by default what the engine's context has room for. What "
        "has no room is left out, and the prompt says so.",
    )
    timeout_s: float = Field(default=120.0, gt=0, description="Deadline of one advisor call, in seconds.")
    engine_start_s: float = Field(default=300.0, gt=0, description="Deadline for the engine to come up, in seconds.")
    threads: int = Field(default=1, ge=1, description="Threads of one tensor operation of an engine on a CPU.")
    kv_cache_gib: float | None = Field(
        default=None,
        gt=0,
        description="vLLM's key-value cache, in GiB; by default 1 on a CPU and what is left of gpu_memory on a GPU.",
    )
    gpu_memory: float = Field(default=0.9, gt=0, le=1, description="vLLM's share of the GPU's memory.")
    probe_limit: float = Field(
        default=5e-3,
        gt=0,
        description="k3, on a fixed prompt after each push, above which the engine serves other weights than the "
        "learner's; raise it for an engine of coarse numbers.",
    )
    engine_arguments: list[str] = Field(
        default_factory=list[str], description="Further arguments of vLLM's server, such as --max-model-len=4096."
    )


class Repair(_Room):
    """How often a model is shown what is wrong with its program and asked again."""

    compile_tries: int = Field(
        default=3,
        ge=1,
        description="Answers that a model may give until one makes a program that compiles; 1: no repair.",
    )
    evaluate_tries: int = Field(
        default=2,
        ge=1,
        description="Programs of one experiment that may be evaluated where they fail by an error in the code; 1: no "
        "repair.",
    )


class ImplementerConfig(_Room):
    """What turns an experiment into code."""

    model: str = Field(
        default="catalog",
        description="catalog (the task's catalogue of mechanisms), any litellm model, or several: a,b or a=3,b=1.",
    )
    choice: Literal["weights", "bandit"] = Field(
        default="weights",
        description="How one of several models is chosen for a candidate. weights: drawn by weight. bandit: by what "
        "each has gained with experiments of this kind, for its cost; weights then say nothing.",
    )
    cost_weight: float = Field(
        default=1.0, ge=0, le=1, description="What a cost counts for the bandit: 1, gain per USD; 0, gain alone."
    )
    api_base: str | None = Field(default=None, description="Base URL of the models' API, where it is not the usual.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of each call, such as temperature or reasoning_effort."
    )
    max_tokens: int = Field(default=8192, ge=16, description="Longest answer, in tokens, reasoning included.")
    timeout_s: float = Field(default=180.0, gt=0, description="Deadline of one call, in seconds.")
    deadline_s: float = Field(
        default=300.0, gt=0, description="Deadline of one answer over all calls that it takes, in seconds."
    )
    repair: Repair = Repair()
    price_per_million_in: float | None = Field(
        default=None, ge=0, description="USD per million prompt tokens of a model whose price is not known."
    )
    price_per_million_out: float | None = Field(
        default=None, ge=0, description="USD per million completion tokens of a model whose price is not known."
    )

    @field_validator("options")
    @classmethod
    def _no_secret(cls, options: dict[str, Any]) -> dict[str, Any]:
        for name in options:
            if re.search("key|token$|secret|password|header", name, re.IGNORECASE):
                raise ValueError(f"{name} may be a secret and would be stored: put the key into the environment")
            if name in ("model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "timeout"):
                raise ValueError(f"{name} cannot be set here")
        try:
            json.dumps(options, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError("only texts, finite numbers, true, false, null, lists and mappings can be sent") from None
        return options

    @field_validator("api_base")
    @classmethod
    def _no_password(cls, url: str | None) -> str | None:
        if url is not None and (not re.match(r"https?://", url) or "@" in url or "?" in url):
            raise ValueError("must be http(s)://HOST/PATH, without a password or a query")
        return url

    @model_validator(mode="after")
    def _both_prices(self) -> Self:
        if (self.price_per_million_in is None) != (self.price_per_million_out is None):
            raise ValueError("price_per_million_in and price_per_million_out belong together: give both")
        return self


class Evaluation(_Room):
    """How candidates are scored."""

    slots: int = Field(default=2, ge=1, description="Evaluations that may run at once.")
    seed: int = Field(default=0, ge=0, description="Seed of the fixed hidden set of instances.")
    fresh_seeds: int = Field(
        default=3,
        ge=0,
        le=100,
        description="A score that claims to be a new best has to hold on the instances of at least one of this many "
        "fresh seeds, tried in turn; 0: believe it.",
    )
    memo: Path | None = Field(
        default=None, description="SQLite file that keeps scores of deterministic tasks across runs."
    )
    unsafe_no_sandbox: bool = Field(
        default=False, description="Run candidates without isolation. Only for code you trust."
    )
    warm: bool = Field(
        default=True,
        description="Fork candidates from a parent, in the sandbox too, that has imported what the task's seed program "
        "imports, where the sandbox can do that; otherwise start each by itself.",
    )
    retries: int = Field(default=2, ge=0, description="Further tries after the infrastructure failed.")
    timeout_s: float | None = Field(
        default=None, gt=0, description="Wall-clock limit of one evaluation, in seconds; by default the task's own."
    )
    settings: dict[str, bool | int | float | str] = Field(
        default_factory=dict[str, bool | int | float | str],
        description="Settings of the task, over those that its task.yaml gives.",
    )


class LearnerConfig(_Room):
    """How the advisor is trained."""

    objective: Literal["pace", "grpo", "entropic", "maxk", "none"] = Field(
        default="pace", description="Which advantage."
    )
    group_size: int = Field(default=8, ge=2, description="Rollouts in a group (the paper's n).")
    k: int = Field(default=4, ge=1, description="k of the best-of-k branch.")
    horizon: int | None = Field(
        default=None,
        ge=1,
        description="Groups over which alpha goes from 0 to 1; by default what the stop rules allow.",
    )
    alpha_schedule: Literal["linear", "code", "compression"] = Field(
        default="linear",
        description="How alpha grows: linear over the horizon (the paper); code, to 0.8 over the horizon, the mixture "
        "standardised again (the authors' code); compression, with the measured compression of rewards.",
    )
    alpha_start: float = Field(default=0.0, ge=0, le=0.8, description="Where the schedule code begins: 0 or 0.5 there.")
    learning_rate: float = Field(default=1e-6, gt=0, description="AdamW learning rate; 1e-6 suits billions of weights.")
    tiny_learning_rate: float = Field(default=1e-4, gt=0, description="The same for the advisor in the package.")
    lora_rank: int | None = Field(
        default=None,
        ge=1,
        le=512,
        description="Train LoRA adapters of this rank on all linear layers in place of all weights; each version is an "
        "adapter that vLLM serves beside the last ones, without a pause. Needs advisor.engine vllm.",
    )
    lora_alpha: float | None = Field(
        default=None, gt=0, description="The adapters are scaled by this over their rank; by default twice the rank."
    )
    weight_decay: float = Field(default=0.1, ge=0, description="AdamW weight decay.")
    betas: tuple[float, float] = Field(default=(0.9, 0.98), description="AdamW betas.")
    clip_low: float = Field(default=0.2, gt=0, lt=1, description="Ratio clip below 1.")
    clip_high: float = Field(default=0.28, gt=0, description="Ratio clip above 1.")
    max_grad_norm: float = Field(default=1.0, gt=0, description="Gradient norm is clipped to this.")
    kl_penalty: float | None = Field(
        default=None,
        ge=0,
        description="Times KL(policy ‖ version 0) per token in the loss; by default 0.1 for entropic and 0 for others.",
    )
    correction: Literal["behaviour", "decoupled"] = Field(
        default="decoupled",
        description="What the sampling policy's ratio does: behaviour, it is clipped; decoupled, it is a truncated "
        "weight. On a bandit whose answer is known decoupled learns as fast from tokens 2 to 8 updates old as from "
        "fresh ones, behaviour does not (docs/results.md).",
    )
    cap: float | None = Field(
        default=2.0,
        ge=1,
        description="A token's weighted ratio is truncated to this at age 0; null: never. It bounds what one token "
        "can do; on the bandit it costs nothing measurable.",
    )
    age_cap: float = Field(
        default=0.5, ge=0, le=1, description="Share of the cap above 1 that is left for each update of a token's age."
    )
    age_decay: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Factor on a token's weight for each update of its age; below 1 it was slower wherever measured.",
    )
    mask: Literal["none", "token", "sequence", "geometric"] = Field(
        default="none",
        description="Leave out tokens whose ratio, or their call's product or geometric mean of ratios, is far off. "
        "On the bandit a mask of tokens or calls lost answers that no mask lost.",
    )
    mask_low: float = Field(default=0.5, gt=0, le=1, description="The mask's lower bound on the ratio.")
    mask_high: float = Field(default=2.0, ge=1, description="The mask's upper bound on the ratio.")
    micro_tokens: int = Field(
        default=8192, ge=1, description="Tokens in one forward pass, padding counted; a longer call stands alone."
    )
    max_length: int | None = Field(
        default=None, ge=2, description="Longest call, prompt and answer, in tokens; by default the model's context."
    )
    checkpoint_every: int = Field(default=1, ge=1, description="Updates between full checkpoints (optimizer included).")
    step_timeout_s: float = Field(default=600.0, gt=0, description="Deadline of one step, in seconds.")
    shuffle_rewards: bool = Field(
        default=False,
        description="Permute rewards within each group before advantages: the control in which nothing can be learned.",
    )


class Reward(_Room):
    """Reward from score: scale * progress, or -1 for a candidate's failure."""

    scale: float = Field(default=5.0, gt=0, description="Reward of full progress.")
    exponent: float = Field(default=1.0, gt=0, description="Shaping exponent of progress.")
    lower: float | None = Field(
        default=None, description="The lower of the scores between which progress is measured; by default the task's."
    )
    upper: float | None = Field(default=None, description="The upper of these scores; by default the task's.")


class Faults(_Room):
    """How long the outside world may fail."""

    retries: int = Field(
        default=3,
        ge=0,
        description="Further tries of an advisor call or a push before the lease or push is given up.",
    )
    backoff_s: float = Field(
        default=0.5,
        gt=0,
        description="First wait before a retry, in seconds; doubles each time up to 30 s.",
    )
    patience_s: float = Field(
        default=600.0,
        gt=0,
        description="How long the engine, the learner, every model or the database may be out of reach before the run "
        "gives up, in seconds.",
    )
    drain_s: float = Field(
        default=120.0,
        gt=0,
        description="How long a drain may take before what is unfinished is left for resume, in seconds.",
    )

    def backoff(self, attempt: int) -> float:
        """Seconds to wait before try `attempt` (from 1): doubling, at most 30."""
        return min(30.0, self.backoff_s * 2.0 ** (min(attempt, 32) - 1))


class Config(_Room):
    """A run, wholly."""

    task: str = Field(default="circle_packing", description="Task name or folder.")
    seed: int = Field(default=0, ge=0, description="Every random draw of the run derives from it.")
    stop: Stop = Stop()
    population: Population = Population()
    search: Search = Search()
    staleness: Staleness = Staleness()
    advisor: Advisor = Advisor()
    implementer: ImplementerConfig = ImplementerConfig()
    evaluation: Evaluation = Evaluation()
    learner: LearnerConfig = LearnerConfig()
    reward: Reward = Reward()
    faults: Faults = Faults()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.learner.k > self.learner.group_size:
            raise ValueError(
                f"learner.k ({self.learner.k}) must not exceed learner.group_size ({self.learner.group_size})"
            )
        if self.staleness.mode == "sync" and self.search.threads != self.learner.group_size:
            raise ValueError(
                f"sync needs as many threads as a group has rollouts: search.threads is {self.search.threads}, "
                f"learner.group_size is {self.learner.group_size}"
            )
        if self.staleness.mode == "sync" and self.staleness.policy != "pace":
            raise ValueError(
                f"under sync nothing can become too old, so staleness.policy is pace and not {self.staleness.policy}"
            )
        if self.learner.lora_rank is not None and self.advisor.engine != "vllm":
            raise ValueError(
                f"learner.lora_rank needs advisor.engine vllm, which serves adapters; it is {self.advisor.engine}"
            )
        if self.advisor.transport == "nccl":
            if self.advisor.engine == "embedded":
                raise ValueError("advisor.transport nccl needs vLLM, and advisor.engine is embedded")
            if self.learner.lora_rank is not None:
                raise ValueError("advisor.transport nccl is for whole weights, and learner.lora_rank makes adapters")
        return self

    @property
    def bound(self) -> int:
        """The staleness bound in force."""
        return 0 if self.staleness.mode == "sync" else self.staleness.max_staleness
