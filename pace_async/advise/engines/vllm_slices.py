"""Which slices of a checkpoint's tensor a rank of vLLM holds, and in which rows of its parameter.

vLLM divides a layer by rows (queries, keys, values, gate, up), by columns (the matrices after them) or by words
(embedding and head). A fused layer is divided part by part: each rank has a share of every part. With fewer heads of
keys and values than ranks, several ranks hold the same head. Everything is read from attributes of vLLM's layers. A
layer that is divided in another way than is assumed here does not hold what is expected of it, so its tensors are not
proven and the push fails. Imports no vLLM.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pace_async.advise.engines.vllm_parameter_map import ParameterRows
from pace_async.slices import Slice, grid_of, whole


@dataclass(frozen=True, slots=True)
class Piece:
    """A slice of a tensor that is in the parameter from row `at` on."""

    at: int
    part: Slice


def pieces_of(place: ParameterRows, shape: Sequence[int]) -> tuple[Piece, ...] | None:
    """The pieces that this rank holds of a tensor of this shape. None if the tensor does not fit the layer's parts."""
    layer = place.layer
    rows, columns = grid_of(shape)
    rank, ranks = getattr(layer, "tp_rank", 0), getattr(layer, "tp_size", 1)
    undivided = (Piece(place.offset, whole(shape)),)
    if ranks == 1:
        return undivided
    words = getattr(layer, "shard_indices", None)
    if words is not None:
        return (Piece(0, Slice(words.org_vocab_start_index, words.org_vocab_end_index, 0, columns)),)
    width = getattr(layer, "input_size_per_partition", None)
    if width is not None and width < layer.input_size:
        return undivided if len(shape) < 2 else (Piece(place.offset, Slice(0, rows, rank * width, (rank + 1) * width)),)
    if getattr(layer, "output_size_per_partition", None) not in (None, getattr(layer, "output_size", None)):
        return _of_parts(place, rows, columns)
    stored = getattr(layer, place.parameter)
    if stored.ndim and stored.shape[0] * ranks == rows:  # a vector of a layer that has no class of its own
        share = rows // ranks
        return (Piece(0, Slice(rank * share, (rank + 1) * share, 0, columns)),)
    return undivided


def _of_parts(place: ParameterRows, rows: int, columns: int) -> tuple[Piece, ...] | None:
    """A layer that is divided by rows. The tensor must fill whole parts."""
    layer, pieces = place.layer, list[Piece]()
    first = local = 0
    for size, copies in _parts(place):
        share = size * copies // layer.tp_size
        if place.offset <= first and first + size <= place.offset + rows:
            begin = first - place.offset + layer.tp_rank // copies * share
            pieces.append(Piece(local, Slice(begin, begin + share, 0, columns)))
        elif place.offset < first + size and first < place.offset + rows:
            return None
        first, local = first + size, local + share
    return tuple(pieces) if pieces and place.offset + rows <= first else None


def _parts(place: ParameterRows) -> Iterator[tuple[int, int]]:
    """Rows of each part of the undivided layer, and how many ranks hold the same share of it."""
    layer, parent = place.layer, place.parent
    if hasattr(layer, "num_kv_head_replicas"):
        copies, heads = layer.num_kv_head_replicas, layer.total_num_kv_heads
        yield layer.total_num_heads * layer.head_size, 1
        yield heads * layer.head_size, copies
        yield heads * layer.v_head_size, copies
        return
    sizes: Sequence[int] = getattr(layer, "output_sizes", None) or (layer.output_size,)
    keys, values = getattr(parent, "key_dim", 0), getattr(parent, "value_dim", 0)
    if len(sizes) == 1 and sizes[0] == 2 * keys + values > 0:  # the convolution of linear attention
        sizes = (keys, keys, values)
    yield from ((size, 1) for size in sizes)
