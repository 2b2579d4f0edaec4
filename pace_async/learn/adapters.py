"""LoRA adapters in place of all weights: what TRL's own support for peft is given.

The base stays in the type of its checkpoint and is never written; the adapters, on every linear layer but the head, are
float32. A new one changes nothing (its second matrix is zero); its first matrix TRL draws from a fixed seed, as it must
be where a version is rebuilt bit for bit from the record of groups. Only imported in the learner's child process.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, cast

from transformers import AutoModelForCausalLM, PreTrainedModel


def with_adapters(given: Path, source: Path, rank: int, alpha: float | None) -> tuple[PreTrainedModel, Any]:
    """The base in directory `given` with the adapters in `source`, and None; where `source` is `given`, the base alone
    and the configuration by which TRL lays new adapters on it. `alpha` None: twice the rank."""
    peft = cast("Any", import_module("peft"))
    base = cast("Any", AutoModelForCausalLM).from_pretrained(given, dtype="auto", local_files_only=True)
    if source != given:
        return peft.PeftModel.from_pretrained(base, source, is_trainable=True), None
    chosen = 2 * rank if alpha is None else alpha
    adapters = peft.LoraConfig(
        task_type="CAUSAL_LM", r=rank, lora_alpha=chosen, lora_dropout=0.0, target_modules="all-linear"
    )
    return base, adapters
