"""The memory of a long step of a deep model, drawn out from short steps of a few of its layers.

To take such a step tensor by tensor takes a quarter of an hour, because linear attention goes over a text chunk by
chunk. But layers of one kind are alike, and each phase of a pass takes memory that is linear in the layers of each
kind, in the tokens of a call and in those of its answer, which the head scores. Passes of several rows have masks,
which grow with the square of the tokens. The phases are kept apart, because the largest one of a short call is not
that of a long one. Holds for adapters: where all weights are trained, casts and gradients of weights are the largest
part of a short step.

Pure. Nothing here imports torch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pace_async.plan.step import StepBytes, StepShape

COUNTED = 8192
"""Layers times tokens up to which a step is taken whole."""
SHORT, LONG, LONGER = 128, 192, 256
"""Tokens of the calls that are counted: whole chunks of linear attention. The third only for several rows."""
FEW, MORE = 64, 96
"""Tokens of their answers, where the head is counted. Else an answer has one, so that nothing of the head shows."""

Layers = tuple[str, ...]
"""Kinds of layers, from the first to the last."""


@dataclass(frozen=True, slots=True)
class PhaseBytes:
    """As `StepBytes`, with the most that is alive at once in each phase: the layers' forward pass, what follows up to
    the gradient of the last layer's output, what follows up to the gradient of the first one's input, and the rest."""

    parameters: int
    trained: int
    weights: int
    reference: int
    gradient: int
    moments: int
    forward: int
    head: int
    backward: int
    end: int
    layer: int
    root: int

    def bytes(self) -> StepBytes:
        same = {field.name: getattr(self, field.name) for field in fields(StepBytes) if field.name != "peak"}
        return StepBytes(**same, peak=max(self.forward, self.head, self.backward, self.end))


@dataclass(frozen=True, slots=True)
class FewLayers:
    """`least`: one layer of each kind, in the order of their last ones. Before them stands another of the last kind,
    because the first layer of a model takes less than its like. `whole`: how many of each kind the model has."""

    least: Layers
    whole: Mapping[str, int]

    def with_one_more(self, kind: str) -> Layers:
        """`least` with a further layer of this kind, before all but the first: what it keeps is kept while each of the
        last ones is computed."""
        return (self.least[0], kind, *self.least[1:])

    def further(self, kind: str) -> int:
        """How many more layers of this kind the model has than `least`."""
        return self.whole[kind] - self.least.count(kind)


def fewer_layers(text: Any) -> FewLayers | None:
    """The few layers that stand for all, None if the model has hardly more. `text` is the configuration of its text
    part."""
    kinds: list[str] = getattr(text, "layer_types", None) or ["same"] * int(text.num_hidden_layers)
    last = {kind: at for at, kind in enumerate(kinds)}
    ordered = sorted(last, key=lambda kind: last[kind])
    few = FewLayers((ordered[-1], *ordered), {kind: kinds.count(kind) for kind in ordered})
    return few if len(few.least) + 1 < len(kinds) else None


def drawn_out(shape: StepShape, few: FewLayers, count: Callable[[Layers, StepShape], PhaseBytes]) -> StepBytes:
    """The bytes of a step of a model of the layers that `few` stand for. `count` takes short steps of a few of them.
    `shape.head_chunk` is a number: 0 if the model's own head scores all answers at once."""
    lengths = lengths_of(shape)

    def counted(part: Layers, tokens: int, answers: int, chunk: int = FEW) -> PhaseBytes:
        return count(part, replace(shape, tokens=tokens, answers=answers, head_chunk=chunk if shape.head_chunk else 0))

    def bare(part: Layers) -> list[PhaseBytes]:
        return [counted(part, tokens, 1) for tokens in lengths]

    least, deeper = bare(few.least), {kind: bare(few.with_one_more(kind)) for kind in few.whole}

    def at_size(start: Sequence[int], grows_as: str) -> float:
        """The value at the step's own size, from those of the least layers. It grows with depth as this one does."""
        sizes = [float(size) for size in start]
        for kind, steps in deeper.items():
            for at, (more, step) in enumerate(zip(steps, least, strict=True)):
                sizes[at] += few.further(kind) * (getattr(more, grows_as) - getattr(step, grows_as))
        return through(shape.tokens, tuple(zip(lengths, sizes, strict=True)))

    rows, answers = shape.rows, shape.rows * shape.answers
    scored = [counted(few.least, tokens, FEW, rows * FEW).head for tokens in lengths]
    at_once = min(shape.head_chunk or answers, answers)
    grown = (at_once - rows * FEW) * (counted(few.least, SHORT, MORE, rows * MORE).head - scored[0])
    if at_once < answers:  # of answers of other chunks the head keeps states, and no logits
        grown += (answers - at_once) * (counted(few.least, SHORT, MORE, rows * FEW).head - scored[0])
    names = ("parameters", "trained", "weights", "reference", "gradient", "moments", "forward", "backward", "end")
    sizes = {name: round(at_size([getattr(step, name) for step in least], name)) for name in names}
    # With depth the phases of the layers and of the head grow by what the layers keep.
    head = round(at_size(scored, "forward") + grown / (rows * (MORE - FEW)))
    return PhaseBytes(**sizes, head=head, layer=max(step.layer for step in least), root=least[0].root).bytes()


def lengths_of(shape: StepShape) -> tuple[int, ...]:
    """Tokens of the short steps: two decide a line, and three a parabola."""
    return (SHORT, LONG) if shape.rows == 1 else (SHORT, LONG, LONGER)


def through(tokens: int, points: Sequence[tuple[int, float]]) -> float:
    """The value at so many tokens of the polynomial through these points: a line through two, a parabola through
    three."""
    total = 0.0
    for at, value in points:
        others = [other for other, _ in points if other != at]
        total += value * math.prod((tokens - other) / (at - other) for other in others)
    return total
