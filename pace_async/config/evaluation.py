"""How candidates are scored, and the reward of a score."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from pace_async.config.choice import OneOf
from pace_async.config.section import MAY_CHANGE, OnResume, Section, stays
from pace_async.registry.evaluators import EVALUATORS


class EvaluationConfig(Section):
    """How candidates are scored."""

    on_resume: ClassVar[OnResume] = stays("scores would not compare")

    evaluators: Annotated[str, OneOf(EVALUATORS), MAY_CHANGE] = Field(
        default="local", description=f"Where programs run. {EVALUATORS.described()}"
    )
    ray_address: Annotated[str | None, MAY_CHANGE] = Field(
        default=None,
        description="HOST:PORT of the Ray cluster; by default RAY_ADDRESS. Without either one is started on this "
        "machine, for the run.",
    )
    ray_timeout_s: Annotated[float, MAY_CHANGE] = Field(
        default=60.0, gt=0, description="Longest wait for a Ray cluster, and for the evaluator of one of its nodes."
    )
    ray_silence_s: Annotated[float, MAY_CHANGE] = Field(
        default=60.0,
        gt=0,
        description="A node of a Ray cluster that has not answered for so long gets no more programs, and what runs "
        "there is evaluated elsewhere. After as long again its evaluator is ended.",
    )
    ray_goes_on_s: Annotated[float, MAY_CHANGE] = Field(
        default=3600.0,
        gt=0,
        description="How long programs continue on a node of a Ray cluster while no runtime asks it for anything, "
        "because the runtime was killed, was interrupted, or is cut off. A resume within this time takes "
        "them over.",
    )
    ray_keeps_s: Annotated[float, MAY_CHANGE] = Field(
        default=3600.0,
        gt=0,
        description="How long the evaluator of such a node keeps its results and what it reserved for a resume, before "
        "it ends itself.",
    )
    ray_resources: Annotated[dict[str, float], MAY_CHANGE] = Field(
        default_factory=dict[str, float],
        description="What each evaluation slot reserves of a Ray cluster besides processors and GPUs, by Ray's names: "
        "memory, in bytes, or names of your own.",
    )
    ray_scales: bool = Field(
        default=False,
        description="Ask the autoscaler of the Ray cluster for room for evaluations that wait, up to evaluation.slots, "
        "and withdraw that when none waits. A run may then begin on a cluster without room.",
    )
    slots: Annotated[int, MAY_CHANGE] = Field(
        default=2, ge=1, description="Evaluations that may run at once, on all machines together."
    )
    seed: int = Field(default=0, ge=0, lt=1 << 63, description="Seed of the fixed hidden set of instances.")
    fresh_seeds: int = Field(
        default=3,
        ge=0,
        le=100,
        description="A score that would be a new best has to hold on the instances of at least one of this many "
        "secret fresh seeds, tried in turn. 0: every score is accepted.",
    )
    repeats: Annotated[int, MAY_CHANGE] = Field(
        default=0,
        ge=0,
        le=100,
        description="Where equal programs get different scores (`deterministic: false`), a score that would be a new "
        "best is measured up to so many times more on the hidden instances, and the mean is the score. Parents are "
        "then compared by the mean less one standard error.",
    )
    repeats_for: Annotated[Literal["bests", "parents"], MAY_CHANGE] = Field(
        default="bests",
        description="What is measured again. parents: besides new bests a program that is chosen as a parent, once at "
        "each choice, until it has been measured 1 + evaluation.repeats times.",
    )
    repeats_budget: Annotated[float | None, MAY_CHANGE] = Field(
        default=None,
        ge=0,
        lt=1,
        description="The highest share of evaluations that may be repeats, of candidates and repeats together.",
    )
    practice: Annotated[Literal["none", "metrics", "output"], MAY_CHANGE] = Field(
        default="none",
        description="Whether a program is first run on instances of the task that are never scored, in a sandbox of "
        "its own, and what models are told of it. metrics: its score and metrics there. output: also the end of what "
        "it printed.",
    )
    prune: Annotated[Literal["none", "median", "asha"], MAY_CHANGE] = Field(
        default="none",
        description="Whether an evaluation ends early that falls behind the earlier ones, by the values that the "
        "evaluator of a command task, or so_far of another's, reports. median: its best value so far is worse than the "
        "median of the completed ones at this step. asha: at some steps only the best 1/prune_factor of all that came "
        "so far go on.",
    )
    prune_warmup: Annotated[int, MAY_CHANGE] = Field(
        default=0, ge=0, description="No evaluation ends early before this step, which is the first rung of asha."
    )
    prune_least: Annotated[int, MAY_CHANGE] = Field(
        default=5, ge=1, description="None ends early at a step that fewer earlier evaluations have reached."
    )
    prune_margin: Annotated[float, MAY_CHANGE] = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="None ends early for being worse by at most this, in the unit of scores: above the noise of the "
        "values.",
    )
    prune_factor: Annotated[int, MAY_CHANGE] = Field(
        default=4, ge=2, description="With asha each rung is this times the one before, and 1/this goes on."
    )
    memo: Annotated[Path | None, MAY_CHANGE] = Field(
        default=None, description="SQLite file that keeps scores of deterministic tasks across runs."
    )
    unsafe_no_sandbox: bool = Field(
        default=False, description="Run candidates without isolation. Only for code you trust."
    )
    warm: Annotated[bool, MAY_CHANGE] = Field(
        default=True,
        description="Fork candidates from a parent process in the sandbox that has imported the modules of the task's "
        "seed program, if the tier supports it; otherwise start each candidate separately.",
    )
    scorers: int = Field(
        default=2,
        ge=1,
        description="Highest number of scorer processes; never more than slots. Each holds the evaluator and its "
        "instances. A further one is started when an output has waited for a second.",
    )
    scorer_memory_mb: int | None = Field(
        default=None,
        gt=0,
        description="Memory limit of one scorer, in MiB; by default half of this machine's memory, shared by the "
        "scorers, and at least 1024.",
    )
    retries: Annotated[int, MAY_CHANGE] = Field(
        default=2, ge=0, description="Further tries after the infrastructure failed."
    )
    timeout_s: float | None = Field(
        default=None, gt=0, description="Wall-clock limit of one evaluation, in seconds; by default the task's own."
    )
    gpus_required: bool | None = Field(
        default=None,
        description="Whether an evaluation must have the GPUs that the task asks for; by default what task.yaml says.",
    )
    program: str | None = Field(
        default=None, description="Another file of the task's folder as seed program, in place of the task's own."
    )
    settings: dict[str, bool | int | float | str] = Field(
        default_factory=dict[str, bool | int | float | str],
        description="Settings of the task; they override those in its task.yaml.",
    )

    @model_validator(mode="after")
    def _silent_before_ended(self) -> Self:
        if not self.ray_silence_s <= self.ray_goes_on_s <= self.ray_keeps_s:
            raise ValueError(
                f"evaluation.ray_silence_s {self.ray_silence_s:g}, evaluation.ray_goes_on_s {self.ray_goes_on_s:g} and "
                f"evaluation.ray_keeps_s {self.ray_keeps_s:g} must each be at most the next, because a node that may "
                "come back is kept until then: raise the later one"
            )
        if wrong := [name for name, amount in self.ray_resources.items() if amount <= 0 or name in ("CPU", "GPU")]:
            raise ValueError(
                f"evaluation.ray_resources cannot have {wrong[0]} {self.ray_resources[wrong[0]]:g}: amounts are above "
                "0, and the task's cpus and gpus say how many processors and GPUs are reserved"
            )
        return self


class RewardConfig(Section):
    """Reward from score: scale * progress, or -1 for a candidate's failure."""

    on_resume: ClassVar[OnResume] = stays("rewards would not compare")

    scale: float = Field(default=5.0, gt=0, description="Reward of full progress.")
    exponent: float = Field(default=1.0, gt=0, description="Shaping exponent of progress.")
    lower: float | None = Field(
        default=None, description="The lower of the scores between which progress is measured; by default the task's."
    )
    upper: float | None = Field(default=None, description="The upper of these scores; by default the task's.")
    relative_to: Literal["bounds", "seed", "parent"] = Field(
        default="bounds",
        description="What progress is measured from. bounds: the lower of these scores, as in the paper. seed: the "
        "seed program's score, below which the reward is 0. parent: the parent's score, so that the "
        "reward is the gain over it.",
    )
    floor: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="With relative_to parent, the most that a worse score loses, as a share of full progress.",
    )

    @model_validator(mode="after")
    def _failures_earn_least(self) -> Self:
        if self.relative_to == "parent" and self.scale * self.floor >= 1:
            raise ValueError(
                f"reward.floor {self.floor:g} times reward.scale {self.scale:g} must be below 1, because a failure "
                "earns -1 and no score may earn less: lower one of the two"
            )
        return self
