"""The memory of a long step that trains all weights, drawn out from steps of a few layers.

Invariant: never below what the whole step would be counted as, but for what bends between the counted tokens and the
step's own. Casts and gradients of weights make the phases of a short step bend, so the short steps of `drawn_out` do
not do. One layer of full attention is taken at the step's own length: head, the gradient of the embedding and such a
layer's backward pass are those of the whole model, because no layer goes over the text chunk by chunk there. The
backward pass through other layers is drawn out from steps of middle length, and what the layers keep from short ones.
What is kept by every layer is added to each phase before the embedding's.

Pure. Nothing here imports torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pace_async.plan.drawn_out import FewLayers, Layers, PhaseBytes, lengths_of, through
from pace_async.plan.step import StepBytes, StepShape

MIDDLE, MIDDLE_OF_ROWS = (512, 1024), (256, 512, 768)
"""Tokens of the steps from which the backward pass is drawn out, of one row and of several: its activations outweigh a
layer's weights."""
FULL = "full_attention"


def drawn_out_whole(shape: StepShape, few: FewLayers, count: Callable[[Layers, StepShape], PhaseBytes]) -> StepBytes:
    """The bytes of a step of a model of the layers that `few` stand for. `count` takes steps of a few of them."""
    lengths, middle = lengths_of(shape), MIDDLE if shape.rows == 1 else MIDDLE_OF_ROWS

    def counted(part: Layers, lengths: Sequence[int]) -> list[PhaseBytes]:
        return [count(part, replace(shape, tokens=tokens, answers=1)) for tokens in lengths]

    def at_length(lengths: Sequence[int], sizes: Sequence[int]) -> float:
        return through(shape.tokens, tuple(zip(lengths, sizes, strict=True)))

    least = counted(few.least, lengths)
    deeper = {kind: counted(few.with_one_more(kind), lengths) for kind in few.whole}
    of_least = [step.forward - _resident_bytes(step) for step in least]
    per_layer = {  # bytes kept by one layer of each kind
        kind: at_length(lengths, [step.forward - _resident_bytes(step) - of_least[at] for at, step in enumerate(steps)])
        for kind, steps in deeper.items()
    }
    every = sum(few.whole[kind] * of_one for kind, of_one in per_layer.items())
    further = sum(few.further(kind) * of_one for kind, of_one in per_layer.items())
    longer = counted(few.least, middle)
    lone_kind = FULL if FULL in few.whole else few.least[-1]
    alone = count((lone_kind,), shape)
    extra = max(
        at_length(lengths, of_least) + further,
        at_length(middle, [step.backward - _resident_bytes(step) for step in longer]) + further,
        max(alone.head, alone.backward) - _resident_bytes(alone) + every - per_layer[lone_kind],
        alone.end - _resident_bytes(alone),
    )
    names = ("parameters", "trained", "weights", "reference", "gradient", "moments")
    sizes = {name: getattr(least[0], name) for name in names}
    for kind, steps in deeper.items():
        for name in names:
            sizes[name] += few.further(kind) * (getattr(steps[0], name) - getattr(least[0], name))
    resident = sum(sizes[name] for name in names[2:])
    return StepBytes(**sizes, peak=resident + round(extra), layer=max(step.layer for step in least), root=least[0].root)


def _resident_bytes(step: PhaseBytes) -> int:
    return step.weights + step.reference + step.gradient + step.moments
