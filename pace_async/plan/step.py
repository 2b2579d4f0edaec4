"""One training step, as far as its memory depends on it, and the bytes that it takes."""

import json
from dataclasses import asdict, dataclass
from typing import Literal, Self


@dataclass(frozen=True, slots=True)
class StepShape:
    """The largest forward and backward pass that a run may take. `model` is a folder with config.json. A pass has
    `rows` calls of `tokens` tokens, of which the last `answers` are scored. Without rows only the weights are counted.
    `lora_rank` None: all weights are trained.
    `reference`: a second copy of the model scores each pass, for the KL penalty. `head_chunk` is learner.head_chunk."""

    model: str
    rows: int
    tokens: int
    answers: int
    precision: Literal["fp32", "bf16"] = "fp32"
    gradient_checkpointing: bool = False
    lora_rank: int | None = None
    reference: bool = False
    head_chunk: int | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class StepBytes:
    """Bytes of a step, from its second on, when the optimizer has its moments. `peak` is the most that is alive at
    once, all else included. `parameters` and `trained` are numbers of weights, and so are `layer`, those of the largest
    layer, and `root`, those in no layer."""

    parameters: int
    trained: int
    weights: int
    reference: int
    gradient: int
    moments: int
    peak: int
    layer: int = 0
    root: int = 0

    @property
    def passes(self) -> int:
        """What a pass or the optimizer's step adds: activations, logits, temporary tensors."""
        return self.peak - self.weights - self.reference - self.gradient - self.moments
