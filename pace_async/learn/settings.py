"""The learner's part of a run's configuration, as one value that is passed as JSON."""

import json
import os
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self, cast

from pace_async.config import Config
from pace_async.learn.correction import Correction
from pace_async.learn.movement import MovementLimits
from pace_async.registry.advisors import advisor_of
from pace_async.registry.objectives import OBJECTIVES


def half_the_cores() -> int:
    """Number of threads that leaves cores for the engine and the candidates. At least 1."""
    return max(1, (os.cpu_count() or 1) // 2)


@dataclass(frozen=True, slots=True)
class TrainerConfig:
    """Units and defaults as in `config.LearnerConfig`, except that here the defaults set no warm-up and no limits,
    and pack nothing.
    `threads` is torch's number of threads on a CPU. Rebuilding weights bit for bit needs the same number.
    `served_type`: versions are written in the number type of version 0's files, else in float32."""

    learning_rate: float = 1e-6
    warmup: int = 0
    limits: MovementLimits = field(default_factory=MovementLimits)
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    clip_low: float = 0.2
    clip_high: float = 0.28
    max_grad_norm: float = 1.0
    loss_type: Literal["dapo", "sum"] = "dapo"
    kl_penalty: float = 0.0
    correction: Correction = field(default_factory=Correction)
    micro_tokens: int = 8192
    packing: Literal["auto", "off"] = "off"
    gradient_checkpointing: bool = False
    precision: Literal["fp32", "bf16"] = "fp32"
    head_chunk: int | None = None
    float32_head: bool = False
    max_length: int | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    temperature: float = 1.0
    checkpoint_every: int = 1
    threads: int = 1
    served_type: bool = False

    def divisor(self, tokens: int) -> int:
        """What the loss of a group of so many valid tokens is divided by."""
        return tokens if self.loss_type == "dapo" else 1

    @classmethod
    def of(cls, config: Config) -> Self:
        """The learner's part of a run's configuration."""
        learner = config.learner
        penalty = OBJECTIVES[learner.objective].kl_penalty
        small = advisor_of(config.advisor.model).small
        return cls(
            learning_rate=learner.tiny_learning_rate if small else learner.learning_rate,
            warmup=learner.warmup,
            limits=MovementLimits(k3=learner.max_move, ess=learner.min_move_ess, sure_k3=learner.max_sure_move),
            weight_decay=learner.weight_decay,
            betas=learner.betas,
            clip_low=learner.clip_low,
            clip_high=learner.clip_high,
            max_grad_norm=learner.max_grad_norm,
            loss_type=learner.loss_type,
            kl_penalty=penalty if learner.kl_penalty is None else learner.kl_penalty,
            correction=Correction(
                kind=learner.correction,
                cap=learner.cap,
                age_cap=learner.age_cap,
                second_moment=learner.second_moment,
            ),
            micro_tokens=learner.micro_tokens,
            packing=learner.packing,
            gradient_checkpointing=learner.gradient_checkpointing,
            precision=learner.precision,
            head_chunk=learner.head_chunk,
            float32_head=config.advisor.float32_head,
            max_length=learner.max_length,
            lora_rank=learner.lora_rank,
            lora_alpha=learner.lora_alpha,
            temperature=config.advisor.temperature,
            checkpoint_every=learner.checkpoint_every,
            threads=max(1, half_the_cores() // learner.cpu_ranks),
            served_type=config.advisor.serves_given_type,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError for an unknown key."""
        raw = cast("dict[str, Any]", json.loads(text))
        if "correction" in raw:
            _refuse_unknown(raw["correction"], Correction)
            raw["correction"] = Correction(**raw["correction"])
        if "limits" in raw:
            _refuse_unknown(raw["limits"], MovementLimits)
            raw["limits"] = MovementLimits(**raw["limits"])
        _refuse_unknown(raw, cls)
        if "betas" in raw:
            raw["betas"] = tuple(raw["betas"])
        return cls(**raw)


def _refuse_unknown(raw: dict[str, Any], kind: type[Any]) -> None:
    unknown = set(raw) - {known.name for known in fields(kind)}
    if unknown:
        raise ValueError(f"unknown learner settings: {', '.join(sorted(unknown))}")
