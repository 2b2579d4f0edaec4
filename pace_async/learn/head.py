"""Log-probabilities and entropies of the answers' tokens, a chunk of positions at a time.

The logits of all answers, in float32, are the largest part of a long pass: 2.3 GiB for 4,096 tokens and a vocabulary of
151,936, of which a pass holds several copies. In chunks, only one chunk's logits exist at a time, and they are computed
again in the backward pass. Values and gradients are those of the model's own head up to rounding.

The layers still run inside the model's own `forward`, so that sharded weights are gathered for the head too.
Imports torch and not TRL.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from types import MethodType
from typing import Any, cast

import torch
from torch.nn.functional import linear

LARGE = 2**26
"""Logits that exist at once by default: 256 MiB in float32."""
_TILE = 128
"""Positions of a chunk are a multiple of this where possible: cards multiply whole tiles."""
ROUNDINGS = 8.0
"""Mean difference of log-probabilities that passes for rounding, in roundings of the largest logit."""


class OwnHead(ValueError):
    """Only the model itself can compute its logits."""


def chunk_of(setting: int | None, count: int, vocabulary: int, *, float32: bool = False) -> int:
    """Positions in a chunk for `count` positions, 0 for all of them in the model's own head, which `float32` rules out.
    `setting` is learner.head_chunk; None chunks only what is large."""
    if setting is not None or count * vocabulary <= LARGE:
        return setting or (max(1, count) if float32 else 0)
    fitting = max(1, LARGE // vocabulary)
    return fitting - fitting % _TILE if fitting > _TILE else fitting


@dataclass(frozen=True, slots=True)
class Answers:
    """The N tokens to score, by row and by column among the last `length` tokens of each row. `chunk` is the number of
    positions in a chunk, 0: the model's own head scores all at once. `in_one_row`: of a row of several calls it scores
    these tokens alone. `float32`: products of numbers in bfloat16 are added up to logits that are not rounded."""

    rows_N: torch.Tensor
    columns_N: torch.Tensor
    length: int
    temperature: float = 1.0
    chunk: int = 0
    in_one_row: bool = False
    float32: bool = False

    def targets(self, ids_BL: torch.Tensor) -> torch.Tensor:
        """The tokens' ids (N,)."""
        return ids_BL[self.rows_N, self.columns_N + (ids_BL.shape[1] - self.length)]


def scores(
    run: Callable[..., Any], ids_BL: torch.Tensor, attended_BL: torch.Tensor | None, answers: Answers
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logprobs (N,) of the answers' tokens in nats, and entropies (N,) without gradient. `run` is a forward pass. If
    there are chunks, its model needs `add_chunks`."""
    targets_N = answers.targets(ids_BL)
    if answers.chunk:
        return run(input_ids=ids_BL, attention_mask=attended_BL, answers=answers, targets_N=targets_N)
    if answers.in_one_row:
        before = ids_BL.shape[1] - answers.length - 1
        output = run(input_ids=ids_BL, attention_mask=attended_BL, logits_to_keep=answers.columns_N + before)
        logits_NV = output.logits[0]
    else:
        output = run(input_ids=ids_BL, attention_mask=attended_BL, logits_to_keep=answers.length + 1)
        logits_NV = output.logits[answers.rows_N, answers.columns_N]
    del output  # as large as the answers' logits, and else alive until the end
    logprobs_NV = torch.log_softmax(logits_NV.float() / answers.temperature, dim=-1)
    del logits_NV
    with torch.no_grad():
        entropies_N = -(logprobs_NV.exp() * logprobs_NV).sum(-1)
    return logprobs_NV.gather(-1, targets_N.unsqueeze(-1)).squeeze(-1), entropies_N


def prepared(models: Iterable[Any | None], run: Callable[..., Any], ids_1L: torch.Tensor, eps: float) -> bool:
    """Whether all models, but for None, can now score in chunks. `run` is a forward pass of a model, its first
    argument, and `ids_1L` a text for trials, in which numbers are rounded by `eps`. Needs all ranks."""
    for model in models:
        if model is None:
            continue
        if not can_chunk(model):
            return False
        add_chunks(model)
        if not _agrees(partial(run, model), ids_1L, eps):
            return False
    return True


def can_chunk(model: Any) -> bool:
    """Whether the head is a linear layer on a backbone of its own, without adapters."""
    inner = causal(model)
    return inner.base_model is not inner and type(inner.get_output_embeddings()) is torch.nn.Linear


def _agrees(run: Callable[..., Any], ids_1L: torch.Tensor, eps: float) -> bool:
    """Whether chunks score a text as the model's own head does. They do not if a model treats its logits in a way that
    is not known here."""
    count = ids_1L.shape[1] - 1
    columns_N = torch.arange(count, device=ids_1L.device)
    answers = Answers(torch.zeros_like(columns_N), columns_N, count, chunk=count // 2)
    with torch.no_grad():
        largest = float(run(input_ids=ids_1L).logits.float().abs().max())
        own_N, chunked_N = (scores(run, ids_1L, None, part)[0] for part in (replace(answers, chunk=0), answers))
    return float((own_N - chunked_N).abs().mean()) <= ROUNDINGS * eps * max(1.0, largest)


def add_chunks(model: Any) -> None:
    """Let the model's forward pass take `answers` and `targets_N`, and return what `scores` does. Other passes stay as
    they are. Sharding and adapters may come before or after."""
    inner = causal(model)
    usual = inner.forward

    def forward(
        own: Any, *args: Any, answers: Answers | None = None, targets_N: torch.Tensor | None = None, **inputs: Any
    ) -> Any:
        if answers is None:
            return usual(*args, **inputs)
        keywords = {name: value for name, value in inputs.items() if value is not None}  # peft adds some that are None
        states_BLH = own.base_model(*args, **keywords).last_hidden_state
        before = states_BLH.shape[1] - answers.length - 1
        states_NH = states_BLH[answers.rows_N, answers.columns_N + before]
        head, scaling = own.get_output_embeddings(), _scaling(own.config.get_text_config())
        return cast("Any", _Scores).apply(states_NH, head.weight, head.bias, targets_N, answers, scaling)

    inner.forward = MethodType(forward, inner)


def causal(model: Any) -> Any:
    """The model itself, without the wrapper of adapters."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


@dataclass(frozen=True, slots=True)
class _Scaling:
    """What a model does to its logits: it multiplies by `scale`, and then bends them to within ±`cap`."""

    scale: float
    cap: float | None


def _scaling(text: Any) -> _Scaling:
    """Read from the configuration of a model's text part, by the names that transformers uses."""
    names = ("logit_scale", "output_multiplier", "lm_head_multiplier")
    factors = [getattr(text, name, None) for name in names]
    scale = next((float(factor) for factor in factors if factor is not None), 1.0)
    if (divisor := getattr(text, "logits_scaling", None)) is not None:
        scale = float(divisor) if text.model_type == "hyperclovax" else 1.0 / float(divisor)
    return _Scaling(scale, getattr(text, "final_logit_softcapping", None))


class _Scores(torch.autograd.Function):
    """Keeps the states (N, H) and the weights, and no logits."""

    @staticmethod
    def forward(
        ctx: Any,
        states_NH: torch.Tensor,
        weight_VH: torch.Tensor,
        bias_V: torch.Tensor | None,
        targets_N: torch.Tensor,
        answers: Answers,
        scaling: _Scaling,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        device = states_NH.device.type
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight_VH.dtype
        ctx.save_for_backward(states_NH, weight_VH, bias_V, targets_N)
        ctx.answers, ctx.scaling, ctx.kind = answers, scaling, kind
        head = _Head(states_NH, weight_VH, bias_V, targets_N, kind, answers, scaling)
        logprobs_N = states_NH.new_empty(len(states_NH), dtype=torch.float32)
        entropies_N = torch.empty_like(logprobs_N)
        for part in head.parts():
            logprobs_CV = torch.log_softmax(head.logits(part), dim=-1)
            logprobs_N[part] = logprobs_CV.gather(-1, targets_N[part].unsqueeze(-1)).squeeze(-1)
            entropies_N[part] = -(logprobs_CV.exp().mul_(logprobs_CV)).sum(-1)
            del logprobs_CV  # else it would live beside the next chunk's logits
        ctx.mark_non_differentiable(entropies_N)
        return logprobs_N, entropies_N

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        states_NH, weight_VH, bias_V, targets_N = ctx.saved_tensors
        of_states, of_weight, of_bias = ctx.needs_input_grad[:3]
        head = _Head(states_NH, weight_VH, bias_V, targets_N, ctx.kind, ctx.answers, ctx.scaling)
        states = torch.empty_like(states_NH) if of_states else None
        weight = torch.zeros_like(weight_VH, dtype=torch.float32) if of_weight else None
        bias = torch.zeros_like(bias_V, dtype=torch.float32) if of_bias else None
        for part in head.parts():
            gradient_CV = head.gradient(part, gradients[0][part])
            if bias is not None:
                bias += gradient_CV.sum(0, dtype=torch.float32)
            if states is not None:
                states[part] = gradient_CV @ head.weight_VH
            if weight is not None:
                # Of one type, the product needs no tensor of its own.
                if ctx.kind == torch.float32:
                    weight.addmm_(gradient_CV.T, head.states(part))
                else:
                    weight += gradient_CV.T @ head.states(part)
            del gradient_CV
        return (
            states,
            None if weight is None else weight.to(weight_VH.dtype),
            None if bias is None else bias.to(bias_V.dtype),
            None,
            None,
            None,
        )


class _Head:
    """The head's products for parts of the positions. C: positions of a part."""

    def __init__(
        self,
        states_NH: torch.Tensor,
        weight_VH: torch.Tensor,
        bias_V: torch.Tensor | None,
        targets_N: torch.Tensor,
        kind: torch.dtype,
        answers: Answers,
        scaling: _Scaling,
    ) -> None:
        self._states_NH, self._targets_N, self._answers, self._scaling = states_NH, targets_N, answers, scaling
        self.weight_VH = weight_VH.to(kind)
        self._bias_V = None if bias_V is None else bias_V.to(kind)

    def parts(self) -> list[slice]:
        chunk = self._answers.chunk
        return [slice(start, start + chunk) for start in range(0, len(self._states_NH), chunk)]

    def states(self, part: slice) -> torch.Tensor:
        return self._states_NH[part].to(self.weight_VH.dtype)

    def logits(self, part: slice) -> torch.Tensor:
        """Float32 (C, V), over the temperature."""
        with torch.autocast(self.weight_VH.device.type, enabled=False):
            multiplied = _in_float32 if self._answers.float32 else linear
            logits_CV = multiplied(self.states(part), self.weight_VH, self._bias_V).float()
        scale, cap = self._scaling.scale, self._scaling.cap
        if cap is not None:
            logits_CV.mul_(scale / cap).tanh_().mul_(cap)
            scale = 1.0
        factor = scale / self._answers.temperature
        return logits_CV if factor == 1.0 else logits_CV.mul_(factor)

    def gradient(self, part: slice, of_logprobs_C: torch.Tensor) -> torch.Tensor:
        """Of the head's own output (C, V), in its type."""
        logits_CV = self.logits(part)
        gradient_CV = torch.softmax(logits_CV, dim=-1)
        scale, cap, temperature = self._scaling.scale, self._scaling.cap, self._answers.temperature
        slope_CV = None
        if cap is not None:
            slope_CV = logits_CV.mul_(temperature / cap).square_().neg_().add_(1.0)
        del logits_CV
        gradient_CV.mul_(-of_logprobs_C.unsqueeze(-1))
        gradient_CV.scatter_add_(-1, self._targets_N[part].unsqueeze(-1), of_logprobs_C.unsqueeze(-1))
        gradient_CV.mul_(scale / temperature)
        if slope_CV is not None:
            gradient_CV.mul_(slope_CV)
        return gradient_CV.to(self.weight_VH.dtype)


def _in_float32(states_CH: torch.Tensor, weight_VH: torch.Tensor, bias_V: torch.Tensor | None) -> torch.Tensor:
    """Logits (C, V) in float32, as vLLM's float32 head computes them. A card needs no copy of the weights for it."""
    bias = None if bias_V is None else bias_V.float()
    if weight_VH.dtype == torch.float32 or weight_VH.device.type != "cuda":
        return linear(states_CH.float(), weight_VH.float(), bias)
    logits_CV = torch.mm(states_CH, weight_VH.t(), out_dtype=torch.float32)
    return logits_CV if bias is None else logits_CV.add_(bias)
