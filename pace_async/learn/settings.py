"""What the learner needs to know of a run's configuration, as one value that travels as JSON."""

import json
import os
from dataclasses import asdict, dataclass, fields
from typing import Self

from pace_async.config import Config


def half_the_cores() -> int:
    """Threads that leave room for the engine and the candidates beside the learner; at least 1."""
    return max(1, (os.cpu_count() or 1) // 2)


@dataclass(frozen=True, slots=True)
class Settings:
    """Units and defaults as in `config.LearnerConfig`. `threads` are torch's on a CPU: the same number must be used to
    rebuild weights bit for bit."""

    learning_rate: float = 1e-6
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    clip_low: float = 0.2
    clip_high: float = 0.28
    max_grad_norm: float = 1.0
    micro_batch: int = 8
    temperature: float = 1.0
    checkpoint_every: int = 1
    threads: int = 1

    @classmethod
    def of(cls, config: Config) -> Self:
        """The learner's share of a run's configuration."""
        learner = config.learner
        tiny = config.advisor.model == "tiny"
        return cls(
            learning_rate=learner.tiny_learning_rate if tiny else learner.learning_rate,
            weight_decay=learner.weight_decay,
            betas=learner.betas,
            clip_low=learner.clip_low,
            clip_high=learner.clip_high,
            max_grad_norm=learner.max_grad_norm,
            micro_batch=learner.micro_batch,
            temperature=config.advisor.temperature,
            checkpoint_every=learner.checkpoint_every,
            threads=half_the_cores(),
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError for a key that is not known."""
        raw = json.loads(text)
        unknown = set(raw) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown learner settings: {', '.join(sorted(unknown))}")
        if "betas" in raw:
            raw["betas"] = tuple(raw["betas"])
        return cls(**raw)
