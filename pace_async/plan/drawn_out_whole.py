"""The memory of a long step that trains all weights, drawn out from steps of a few layers.

Invariant: never below what the whole step would be counted as, but for what bends between LONG tokens and the step's
own. Casts and gradients of weights make the phases of a short step bend, so the short steps of `drawn_out` do not do.
One layer of full attention is taken at the step's own length: head, the gradient of the embedding and such a layer's
backward pass are those of the whole model, because no layer goes over the text chunk by chunk there. The backward pass
through other layers is drawn out from two lengths, and what the layers keep from two short ones. What is kept by every
layer is added to each phase before the embedding's.

Pure. Nothing here imports torch.
"""

from collections.abc import Callable
from dataclasses import replace

from pace_async.plan.drawn_out import LONG, SHORT, PhaseBytes
from pace_async.plan.step import StepBytes, StepShape

LESS, MORE = 512, 1024
"""Tokens of the steps from which the backward pass is drawn out: its activations outweigh a layer's weights."""

Counter = Callable[[int, StepShape, bool], PhaseBytes]
"""Takes a step of so many first layers, or of so many layers of full attention alone."""


def drawn_out_whole(shape: StepShape, layers: int, few: tuple[int, int], count: Counter) -> StepBytes:
    """The bytes of a step of a model of so many `layers`. `few` as `drawn_out.fewer_layers` gives them."""
    first, second = few

    def counted(part: int, tokens: int) -> PhaseBytes:
        return count(part, replace(shape, tokens=tokens, answers=1), False)

    short, longer, deeper, both = (counted(part, tokens) for part in few for tokens in (SHORT, LONG))
    depth = (layers - first) / (second - first)
    kept_short, kept_long = _kept(deeper, short), _kept(both, longer)
    kept = _at(shape.tokens, (SHORT, kept_short), (LONG, kept_long)) / (second - first)
    less, more = counted(first, LESS), counted(first, MORE)
    through = _at(shape.tokens, (LESS, less.backward - _held(less)), (MORE, more.backward - _held(more)))
    forward = _at(shape.tokens, (SHORT, short.forward - _held(short)), (LONG, longer.forward - _held(longer)))
    alone = count(1, shape, True)
    extra = max(
        forward + (layers - first) * kept,
        through + (layers - first) * kept,
        max(alone.head, alone.backward) - _held(alone) + (layers - 1) * kept,
        alone.end - _held(alone),
    )
    names = ("parameters", "trained", "weights", "reference", "gradient", "moments")
    sizes = {
        name: round(getattr(short, name) + depth * (getattr(deeper, name) - getattr(short, name))) for name in names
    }
    held = sum(sizes[name] for name in names[2:])
    return StepBytes(**sizes, peak=held + round(extra), layer=short.layer, root=short.root)


def _held(step: PhaseBytes) -> int:
    return step.weights + step.reference + step.gradient + step.moments


def _kept(deeper: PhaseBytes, step: PhaseBytes) -> int:
    """What the further layers of the first step keep."""
    return deeper.forward - _held(deeper) - (step.forward - _held(step))


def _at(tokens: int, short: tuple[int, float], longer: tuple[int, float]) -> float:
    """On the line through two points."""
    (start, value), (end, more) = short, longer
    return value + (tokens - start) * (more - value) / (end - start)
