"""LoRA adapters instead of all weights: the arguments for TRL's own peft support.

The base keeps the type of its checkpoint and never changes. Every linear layer except the head gets an adapter in
float32. A new adapter has no effect, because its second matrix is zero. TRL draws the first matrix from a fixed seed,
so a version can be rebuilt bit for bit from the record of groups. Only imported in the learner's child process.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from pace_async.gpus import hide_card_kernels


def load_model(folder: Path, dtype: "torch.dtype | Literal['auto']") -> PreTrainedModel:
    """The model in a directory. `auto`: in the type of its files."""
    if not torch.cuda.is_available():
        hide_card_kernels()
    return cast("Any", AutoModelForCausalLM).from_pretrained(folder, dtype=dtype, local_files_only=True)


def with_adapters(base_folder: Path, source: Path, rank: int, alpha: float | None) -> tuple[PreTrainedModel, Any]:
    """The base in directory `base_folder` with the adapters in `source`, and None. If `source` is `base_folder`: the
    base alone, and the configuration with which TRL adds new adapters. `alpha` None: twice the rank."""
    peft = cast("Any", import_module("peft"))
    base = load_model(base_folder, "auto")
    if source != base_folder:
        return peft.PeftModel.from_pretrained(base, source, is_trainable=True), None
    return base, adapter_settings(rank, alpha)


def adapter_settings(rank: int, alpha: float | None) -> Any:
    """The configuration of new adapters. `alpha` None: twice the rank."""
    chosen = 2 * rank if alpha is None else alpha
    return cast("Any", import_module("peft")).LoraConfig(
        task_type="CAUSAL_LM", r=rank, lora_alpha=chosen, lora_dropout=0.0, target_modules="all-linear"
    )


def added(base: Any, settings: Any) -> Any:
    """The base with new adapters, as TRL adds them."""
    return cast("Any", import_module("peft")).get_peft_model(base, settings)
