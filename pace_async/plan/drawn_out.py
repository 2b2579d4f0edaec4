"""The memory of a long step of a deep model, drawn out from short steps of a few of its layers.

To take such a step tensor by tensor takes a quarter of an hour, because linear attention goes over a text chunk by
chunk. But the layers are alike, and each phase of a pass takes memory that is linear in the layers, in the tokens of a
call and in those of its answer, which the head scores. The phases are kept apart, because the largest one of a short
call is not that of a long one. Holds for passes of one row: those of several have masks, which are not linear. Holds
for adapters: where all weights are trained, casts and gradients of weights are the largest part of a short step.

Pure. Nothing here imports torch.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from pace_async.plan.step import StepBytes, StepShape

COUNTED = 8192
"""Layers times tokens up to which a step is taken whole."""
SHORT, LONG = 128, 192
"""Tokens of the calls that are counted: whole chunks of linear attention."""
FEW, MORE = 64, 96
"""Tokens of their answers, where the head is counted. Else an answer has one, so that nothing of the head shows."""


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
        same = {one.name: getattr(self, one.name) for one in fields(StepBytes) if one.name != "peak"}
        return StepBytes(**same, peak=max(self.forward, self.head, self.backward, self.end))


def fewer_layers(text: Any) -> tuple[int, int] | None:
    """Two numbers of first layers that hold every kind of layer in the model's own proportions, None if the model has
    hardly more. `text` is the configuration of its text part."""
    kinds = getattr(text, "layer_types", None) or ["same"] * int(text.num_hidden_layers)
    period = next(
        size for size in range(1, len(kinds) + 1) if all(kinds[at] == kinds[at % size] for at in range(len(kinds)))
    )
    return (period, 2 * period) if 2 * period < len(kinds) else None


def drawn_out(
    shape: StepShape, layers: int, few: tuple[int, int], count: Callable[[int, StepShape], PhaseBytes]
) -> StepBytes:
    """The bytes of a step of a model of so many `layers`. `count` takes short steps of its first layers.
    `shape.head_chunk` is a number: 0 if the model's own head scores all answers at once."""

    def counted(part: int, tokens: int, answers: int, chunk: int = FEW) -> PhaseBytes:
        return count(part, replace(shape, tokens=tokens, answers=answers, head_chunk=chunk if shape.head_chunk else 0))

    first, second = few
    corners = [(part, tokens) for part in (first, second) for tokens in (SHORT, LONG)]
    depth = (layers - first) / (second - first)
    length = (shape.tokens - SHORT) / (LONG - SHORT)

    def at_size(values: list[int]) -> float:
        """The value at the step's own size, from those at the corners."""
        start, longer, deeper, both = values
        grown = depth * (deeper - start) + length * (longer - start)
        return start + grown + depth * length * (both - longer - deeper + start)

    bare = [counted(part, tokens, 1) for part, tokens in corners]
    scored, longer = (counted(first, tokens, FEW).head for tokens in (SHORT, LONG))
    at_once = min(shape.head_chunk or shape.answers, shape.answers)
    beyond, grown = shape.answers - at_once, (at_once - FEW) * (counted(first, SHORT, MORE, MORE).head - scored)
    if beyond:  # of answers of other chunks the head keeps states, and no logits
        grown += beyond * (counted(first, SHORT, MORE).head - scored)
    kept = [one.forward for one in bare]  # with depth both phases grow by what the layers keep
    heads = [scored, longer, scored + kept[2] - kept[0], longer + kept[3] - kept[1]]
    names = ("parameters", "trained", "weights", "reference", "gradient", "moments", "forward", "backward", "end")
    sizes = {name: round(at_size([getattr(one, name) for one in bare])) for name in names}
    head = round(at_size(heads) + grown / (MORE - FEW))
    return PhaseBytes(**sizes, head=head, layer=bare[0].layer, root=bare[0].root).bytes()
