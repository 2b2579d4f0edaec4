"""What an engine needs of a model, read from its config.json."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """Bytes of a weight, of the keys and values of one token, and of the state that layers of linear attention keep for
    one request, whatever its length. `heads`: heads of keys and values of one layer. `has_more_than_text`: the run
    copies the text part. `head`: bytes of the output head that the model ties to its embedding, which vLLM serves
    apart."""

    weight: int
    token: int
    request: int
    heads: int = 1
    has_more_than_text: bool = False
    head: int = 0

    def cached(self, tokens: int, ranks: int) -> float:
        """Bytes that a request of so many tokens takes on each of so many cards. Each card has its share of the heads,
        and at least one."""
        return tokens * self.token / min(ranks, self.heads) + self.request / ranks


def served_model(folder: Path) -> ServedModel:
    """Raises UsageError for a config.json that does not describe a decoder of text."""
    file = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read ({error}): make the folder again.") from None
    text: dict[str, Any] = config.get("text_config") or config
    try:
        linear = _linear_layers(text)
        heads = int(text.get("num_key_value_heads") or text["num_attention_heads"])
        width = int(text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"])
        weight = _BYTES.get(str(text.get("dtype") or config.get("dtype") or config.get("torch_dtype")), 4)
        full = int(text["num_hidden_layers"]) - linear
        state = linear * _state(text, weight) if linear else 0
        tied = bool(text.get("tie_word_embeddings") or config.get("tie_word_embeddings"))
        head = int(text["vocab_size"]) * int(text["hidden_size"]) * weight if tied else 0
        return ServedModel(weight, full * 2 * heads * width * weight, state, heads, text is not config, head)
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise UsageError(f"{file} does not describe a language model ({type(error).__name__}: {error}).") from None


def refuse_unless_divisible(model: str, folder: Path, ranks: int) -> None:
    """Raises UsageError for a model that vLLM cannot divide among so many cards. `model` is its name for the user. A
    number that config.json does not state is not checked."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return  # whoever reads more of it says so
    text: dict[str, Any] = config.get("text_config") or config
    heads = text.get("num_key_value_heads")
    for name, divided in (
        ("num_attention_heads", text.get("num_attention_heads")),
        ("num_key_value_heads", heads if isinstance(heads, int) and heads > ranks else None),
        ("intermediate_size", text.get("intermediate_size")),
        ("linear_num_key_heads", text.get("linear_num_key_heads")),
        ("linear_num_value_heads", text.get("linear_num_value_heads")),
    ):
        if isinstance(divided, int) and divided % ranks:
            raise UsageError(
                f"advisor.gpus divides --advisor {model} among {ranks} cards, and its {name}, {divided}, cannot be "
                "divided by that number."
            )
    if isinstance(heads, int) and heads < ranks and ranks % heads:
        raise UsageError(
            f"advisor.gpus divides --advisor {model} among {ranks} cards, and that is no multiple of its "
            f"num_key_value_heads, {heads}."
        )


def _linear_layers(text: Mapping[str, Any]) -> int:
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        return [str(kind) for kind in cast("list[object]", kinds)].count("linear_attention")
    every = text.get("full_attention_interval")
    layers = int(text["num_hidden_layers"])
    return layers - layers // int(every) if every else 0


def _state(text: Mapping[str, Any], weight: int) -> int:
    """Of one layer: the recurrent state in float32, and the last inputs of the convolution."""
    keys = int(text["linear_num_key_heads"]) * int(text["linear_key_head_dim"])
    values = int(text["linear_num_value_heads"]) * int(text["linear_value_head_dim"])
    recurrent = values * int(text["linear_key_head_dim"]) * 4
    return recurrent + (2 * keys + values) * int(text.get("linear_conv_kernel_dim", 4)) * weight
