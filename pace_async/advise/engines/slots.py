"""Key-value cache of the running sequences, one slot for each.

Invariant: slot s holds the keys and values of its sequence in columns 0, 1, …. So sequences of any length fit side by
side, no sequence moves because another is longer, and a mask hides the columns after each one's end. Memory grows with
the largest number of rows and the longest sequence so far. Not paged, and prefixes are not shared: the embedded model
is small.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, DynamicLayer

from pace_async.row_positions import refuse_dependent_rows

_COLUMNS = 256


class _Layer(CacheLayerMixin):
    """Cache of one attention layer: two tensors of shape (rows, heads, columns, head width) that grow on demand."""

    def __init__(self, cache: "SlotCache") -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.cache = cache

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Store the new keys and values. Returns those to attend to."""
        cache = self.cache
        if cache.slot is not None:
            count = key_states.shape[2]
            keys, values = self._room(key_states, cache.slot + 1, count)
            keys[cache.slot, :, :count] = key_states[0]
            values[cache.slot, :, :count] = value_states[0]
            return key_states, value_states
        rows = key_states.shape[0]
        keys, values = self._room(key_states, rows, cache.width)
        keys[cache.rows, :, cache.columns] = key_states[:, :, 0]
        values[cache.rows, :, cache.columns] = value_states[:, :, 0]
        return keys[:rows, :, : cache.width], values[:rows, :, : cache.width]

    def move(self, source: int, target: int) -> None:
        if self.keys is not None and self.values is not None and source < self.keys.shape[0]:
            self.keys[target] = self.keys[source]
            self.values[target] = self.values[source]

    def _room(self, like: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        keys, values = self.keys, self.values
        if keys is None or values is None or keys.shape[0] < rows or keys.shape[2] < columns:
            keys, values = self._grown(keys, like, rows, columns), self._grown(values, like, rows, columns)
            self.keys, self.values, self.is_initialized = keys, values, True
        return keys, values

    @staticmethod
    def _grown(old: Tensor | None, like: Tensor, rows: int, columns: int) -> Tensor:
        old_rows, old_columns = (old.shape[0], old.shape[2]) if old is not None else (0, 0)
        rows = max(old_rows, 1 << (rows - 1).bit_length())
        columns = max(old_columns, -(-columns // _COLUMNS) * _COLUMNS)
        grown = like.new_zeros(rows, like.shape[1], columns, like.shape[3])
        if old is not None:
            grown[:old_rows, :, :old_columns] = old
        return grown

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None: ...

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1


class SlotCache(Cache):
    """transformers writes to and attends from this cache. `prefill` and `decode` set where the next pass writes."""

    def __init__(self, layers: int) -> None:
        self._layers = [_Layer(self) for _ in range(layers)]
        super().__init__(layers=list(self._layers))
        self.slot: int | None = None
        self.rows = self.columns = torch.empty(0, dtype=torch.long)
        self.width = 0

    def prefill(self, slot: int) -> None:
        """Prepare for a forward pass over one whole sequence, written to `slot`."""
        self.slot = slot

    def decode(self, columns_B: Tensor) -> Tensor:
        """Prepare for a forward pass over one token for each of slots 0 … B−1, written at these columns. Returns the
        attention mask, (B, 1, 1, width), true where a row may attend."""
        self.slot = None
        self.columns = columns_B
        self.rows = torch.arange(len(columns_B), device=columns_B.device)
        self.width = int(columns_B.max()) + 1
        return (torch.arange(self.width, device=columns_B.device) <= columns_B[:, None])[:, None, None, :]

    def move(self, source: int, target: int) -> None:
        """Move the sequence in slot `source` to slot `target`."""
        for layer in self._layers:
            layer.move(source, target)

    def clear(self) -> None:
        """Drop all keys and values and free their memory."""
        for layer in self._layers:
            layer.keys = layer.values = None
            layer.is_initialized = False


def slot_cache(model: Any) -> SlotCache:
    """A cache for `model`. Raises ValueError if the architecture needs another kind of cache (sliding windows, state
    spaces), or if rows depend on their neighbours or cached decoding differs from a plain forward pass."""
    layers: list[Any] = DynamicCache(config=model.config).layers
    if not layers or any(type(layer) is not DynamicLayer for layer in layers):
        raise ValueError(f"the embedded engine serves full-attention models only, not {model.config.model_type}")
    with torch.inference_mode():
        refuse_dependent_rows(model, model.config.get_text_config().max_position_embeddings)
        error = _decoding_error(model, SlotCache(len(layers)))
    if not error < 1e-2:
        raise ValueError(f"cached decoding of {model.config.model_type} differs from a plain forward pass by {error}")
    return SlotCache(len(layers))


def _decoding_error(model: Any, cache: SlotCache) -> float:
    """Largest difference in log-probability between cached and plain decoding of two short sequences."""
    vocabulary = model.config.get_text_config().vocab_size
    sequences = [[(7 * i + 3) % vocabulary for i in range(count)] for count in (5, 9)]
    for slot, ids in enumerate(sequences):
        prefill(model, cache, slot, ids[:-1])
    cached = decode(model, cache, sequences).log_softmax(-1)
    plain = [
        model(input_ids=torch.tensor([ids], device=model.device), use_cache=False).logits[0, -1].float()
        for ids in sequences
    ]
    return float((cached - torch.stack(plain).log_softmax(-1)).abs().max())


def prefill(model: Any, cache: SlotCache, slot: int, ids: list[int]) -> None:
    """Compute the keys and values of `ids` and store them in `slot`."""
    if not ids:
        return
    cache.prefill(slot)
    tokens = torch.tensor([ids], device=model.device)
    positions = torch.arange(len(ids), device=model.device)[None]
    model.base_model(input_ids=tokens, position_ids=positions, past_key_values=cache, use_cache=True)


def decode(model: Any, cache: SlotCache, sequences: list[list[int]]) -> Tensor:
    """Logits of the next token of each sequence, (B, V), fp32. Slot b must hold sequence b without its last token. The
    pass adds the last token's keys and values."""
    columns = torch.tensor([len(ids) - 1 for ids in sequences], device=model.device)
    tokens = torch.tensor([[ids[-1]] for ids in sequences], device=model.device)
    answer = model(
        input_ids=tokens,
        attention_mask=cache.decode(columns),
        position_ids=columns[:, None],
        past_key_values=cache,
        use_cache=True,
    )
    return answer.logits[:, -1].float()
