"""How the advisor is trained, and how old its data may be."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from pace_async.config.choice import OneOf
from pace_async.config.gpus import IN_WORDS, Gpus
from pace_async.config.removed import without_removed
from pace_async.config.section import MAY_BE_RAISED, MAY_CHANGE, OnResume, Section, stays
from pace_async.registry.corrections import CORRECTIONS
from pace_async.registry.objectives import ALPHA_SCHEDULES, OBJECTIVES
from pace_async.registry.staleness_policies import STALENESS_POLICIES
from pace_async.registry.trainers import TRAINERS


class StalenessConfig(Section):
    """How old training data may be."""

    mode: Annotated[Literal["async", "sync"], stays("a run goes on as it began, sync or async")] = Field(
        default="async", description="sync is async with bound 0 and as many threads as a group has rollouts."
    )
    max_staleness: Annotated[int, MAY_BE_RAISED] = Field(
        default=2,
        ge=0,
        description="Updates between the oldest token of a rollout and the step that trains it, at most.",
    )
    policy: Annotated[str, OneOf(STALENESS_POLICIES), stays("open rollouts were admitted under it")] = Field(
        default="pace", description=STALENESS_POLICIES.described()
    )


class LearnerConfig(Section):
    """How the advisor is trained."""

    on_resume: ClassVar[OnResume] = stays("the learner rebuilds its weights from the recorded groups with it")

    objective: Annotated[str, OneOf(OBJECTIVES)] = Field(
        default="pace", description=f"Which advantage. {OBJECTIVES.described()}"
    )
    trainer: Annotated[str, OneOf(TRAINERS)] = Field(
        default="process", description=f"Where the weights are, and who trains them. {TRAINERS.described()}"
    )
    group_size: int = Field(default=8, ge=2, description="Rollouts in a group (the paper's n).")
    k: int = Field(default=4, ge=1, description="k of the best-of-k branch.")
    horizon: int | None = Field(
        default=None,
        ge=1,
        description="Groups over which alpha grows from 0 to 1; by default as many as the stop rules allow.",
    )
    alpha_schedule: Annotated[str, OneOf(ALPHA_SCHEDULES)] = Field(
        default="linear",
        description=f"How alpha grows. {ALPHA_SCHEDULES.described()}",
    )
    collapsed: Literal["other_branch", "skip"] = Field(
        default="other_branch",
        description="What happens to a group in which one branch of the objective pace has collapsed. other_branch: "
        "the other one has the whole weight, so that a group of equal rewards with some failures still trains. "
        "skip: it trains nothing, as in the paper.",
    )
    alpha_start: float = Field(
        default=0.0,
        ge=0,
        le=0.8,
        description="Where the schedule code begins (0 or 0.5 there), and what alpha is under the schedule fixed.",
    )
    learning_rate: float = Field(default=1e-6, gt=0, description="AdamW learning rate; 1e-6 suits billions of weights.")
    tiny_learning_rate: float = Field(default=1e-4, gt=0, description="The same for an advisor in the package.")
    warmup: int = Field(
        default=10,
        ge=0,
        description="Updates over which the learning rate grows to its full size. While AdamW has seen few gradients, "
        "each weight moves by nearly the whole rate.",
    )
    max_move: float | None = Field(
        default=0.01,
        gt=0,
        description="Highest k3 between the policies before and after one update, over its own tokens. A larger step "
        "is halved, up to five times, and then discarded. null: no limit. None of the three limits can be held by "
        "learner.trainer tinker, where all of them are null.",
    )
    min_move_ess: float | None = Field(
        default=0.9,
        gt=0,
        le=1,
        description="Lowest effective sample size of the same ratios, as a share; used like max_move. null: no limit.",
    )
    max_sure_move: float | None = Field(
        default=2e-6,
        gt=0,
        description="Highest k3 over the tokens to which the policy gave a probability of 0.9 or more, which are the "
        "form of its answers. A larger step is halved, up to five times, and taken. null: no limit. No limit on "
        "movement lies below four times what rounding alone moves.",
    )
    rollback: bool = Field(
        default=True,
        description="If clearly more answers cannot be parsed than before, make the next version from the last good "
        "one. From the second time on the learning rate is multiplied by a quarter.",
    )
    lora_rank: int | None = Field(
        default=None,
        ge=1,
        le=512,
        description="Train LoRA adapters of this rank on all linear layers in place of all weights; each version is an "
        "adapter that vLLM serves beside the last ones, without a pause. Needs advisor.engine vllm. "
        "learner.trainer tinker trains nothing else, by default of rank 32.",
    )
    lora_alpha: float | None = Field(
        default=None, gt=0, description="The adapters are scaled by this over their rank; by default twice the rank."
    )
    weight_decay: float = Field(default=0.1, ge=0, description="AdamW weight decay.")
    betas: tuple[float, float] = Field(default=(0.9, 0.98), description="AdamW betas.")
    clip_low: float = Field(default=0.2, gt=0, lt=1, description="Ratio clip below 1.")
    clip_high: float = Field(default=0.28, gt=0, description="Ratio clip above 1.")
    max_grad_norm: float = Field(default=1.0, gt=0, description="Gradient norm is clipped to this.")
    loss_type: Literal["dapo", "sum"] = Field(
        default="dapo",
        description="What the loss of a group's tokens is divided by. dapo: their number, as TRL does under this name. "
        "sum: nothing, so a group of long answers takes a larger gradient than one of short answers, which "
        "max_grad_norm has to leave room for.",
    )
    kl_penalty: float | None = Field(
        default=None,
        ge=0,
        description="Times KL(policy ‖ version 0) per token in the loss; by default 0.1 for entropic and 0 for others.",
    )
    correction: Annotated[str, OneOf(CORRECTIONS)] = Field(
        default="decoupled",
        description=f"How data of older versions counts. {CORRECTIONS.described()} "
        "On a bandit with a known answer decoupled learns as fast from tokens 2 to 8 updates old as from "
        "fresh ones, and behaviour does not (docs/results/objectives.md). In searches at the usual rate no "
        "correction is told apart from none (docs/results/corrections.md).",
    )
    cap: float | None = Field(
        default=2.0,
        ge=1,
        description="The weighted ratio of a token or a call is truncated to this at age 0; null: never. It bounds the "
        "effect of one token. On the bandit it costs nothing measurable.",
    )
    age_cap: float = Field(
        default=0.5, ge=0, le=1, description="Share of the cap above 1 that is left for each update of a token's age."
    )
    mask_cut_off: bool = Field(
        default=False,
        description="Train nothing of a rollout of which an answer was cut off at its longest length. Its reward still "
        "counts among those of its group. A toy experiment found no difference "
        "(docs/results/objectives.md).",
    )
    second_moment: float = Field(
        default=0.04,
        gt=0,
        description="With correction m2po, the highest mean squared log-ratio over the tokens of a group that count.",
    )
    micro_tokens: int = Field(
        default=8192, ge=1, description="Tokens in one forward pass, padding counted; a longer call gets its own pass."
    )
    packing: Literal["auto", "off"] = Field(
        default="auto",
        description="auto: the calls of a pass stand in one row without padding, where every layer of the model has "
        "full attention, so that no call sees another. Elsewhere, and with off, each call is a row, padded to the "
        "longest.",
    )
    gradient_checkpointing: Annotated[bool, MAY_CHANGE] = Field(
        default=False,
        description="Keep only the inputs of layers in a forward pass, and compute the rest again in the backward "
        "pass: much less memory for about a third more time. The weights come out the same.",
    )
    precision: Literal["fp32", "bf16"] = Field(
        default="fp32",
        description="Number type of the passes. bf16: passes in bfloat16, with weights, gradient and optimizer in "
        "float32; faster on a card, and half of the activations' memory.",
    )
    head_chunk: int | None = Field(
        default=None,
        ge=0,
        description="Tokens of answers that the head scores at once. Their logits are computed again in the backward "
        "pass, so that those of long answers never exist together. 0: all at once. By default all where 256 MiB hold "
        "their logits, else as many as 256 MiB hold.",
    )
    gpus: Annotated[Gpus, MAY_CHANGE] = Field(
        default=None, description=f"The learner's cards. {IN_WORDS} and works on a part of each group."
    )
    cpu_ranks: Annotated[int, MAY_CHANGE] = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes among which the learner is divided where it computes on the processor, as it is among "
        "several cards. Above 1 it uses no card. It makes no step faster on one machine.",
    )
    max_length: Annotated[int | None, MAY_CHANGE] = Field(
        default=None, ge=2, description="Longest call, prompt and answer, in tokens; by default the model's context."
    )
    checkpoint_every: Annotated[int, MAY_CHANGE] = Field(
        default=1, ge=1, description="Updates between full checkpoints (optimizer included)."
    )
    step_timeout_s: Annotated[float, MAY_CHANGE] = Field(
        default=600.0, gt=0, description="Deadline of one step, in seconds."
    )
    shuffle_rewards: bool = Field(
        default=False,
        description="Permute rewards within each group before advantages: a control run that cannot learn.",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_removed(cls, given: object) -> object:
        return without_removed("learner", given)

    @property
    def ranks(self) -> int:
        """Number of the learner's processes."""
        if isinstance(self.gpus, list):
            return len(self.gpus)
        return self.cpu_ranks if self.gpus is None else self.gpus
