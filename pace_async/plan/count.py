"""Counts the memory of training steps: `python -m pace_async.plan.count`.

Each line of standard input is a StepShape as JSON, and its answer is a line with the JSON of StepBytes. A short step
that stands for several of them is taken once. The model is built from its config.json alone, on tensors without values,
and takes the step that the learner takes: a pass with gradients of an earlier pass in place, version 0's pass beside it
if there is a penalty, and AdamW's step. The pass that measures how far the policy moved keeps nothing, so it takes
less. What a library would compile or fuse on a card (flash-linear-attention, for instance) takes less than what is
counted here.

A long step of a deep model is not taken whole: see `plan.drawn_out`.
Only imported in a child process, because it imports torch.
"""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoConfig, AutoModelForCausalLM, masking_utils
from transformers.utils import logging

from pace_async.children import die_with_parent
from pace_async.gpus import hide_card_kernels
from pace_async.learn.adapters import adapter_settings, added
from pace_async.learn.head import Answers, add_chunks, can_chunk, chunk_of, scores
from pace_async.learn.passes import in_half, layers, recompute
from pace_async.plan.drawn_out import COUNTED, Layers, PhaseBytes, drawn_out, fewer_layers
from pace_async.plan.drawn_out_whole import drawn_out_whole
from pace_async.plan.live import LiveBytes
from pace_async.plan.step import StepBytes, StepShape

_packed = masking_utils.find_packed_sequence_indices
_adamw = cast("Any", torch.optim.AdamW)


class CannotBuild(ValueError):
    """transformers makes no causal language model of a config.json."""


def count(shape: StepShape, known: dict[tuple[Layers, StepShape], PhaseBytes] | None = None) -> StepBytes:
    """The bytes of a step. A long one is drawn out from short ones. `known` holds the short ones that were taken
    before. Raises CannotBuild."""
    hide_card_kernels()
    masking_utils.find_packed_sequence_indices = _nothing_is_packed if shape.rows == 1 else _packed
    config = _config(shape.model)
    if shape.rows == 0:
        with torch.device("meta"):
            whole = sum(weight.numel() for weight in _built(config, torch.float32).parameters())
        return StepBytes(whole, 0, 0, 0, 0, 0, 0)
    text = config.get_text_config()
    shape = replace(shape, head_chunk=chunk_of(shape.head_chunk, shape.rows * shape.answers, text.vocab_size))
    few = fewer_layers(text)
    if few is None or text.num_hidden_layers * shape.tokens <= COUNTED:
        return _phase_bytes(config, shape).bytes()
    cache = {} if known is None else known

    def short(kinds: Layers, part: StepShape) -> PhaseBytes:
        if (kinds, part) not in cache:
            cache[kinds, part] = _phase_bytes(_with_layers(part.model, kinds), part)
        return cache[kinds, part]

    return (drawn_out_whole if shape.lora_rank is None else drawn_out)(shape, few, short)


def _phase_bytes(config: Any, shape: StepShape) -> PhaseBytes:
    with torch.device("meta"):
        policy = _policy(config, shape)
        kind = torch.float32 if shape.lora_rank is None else config.dtype or torch.float32
        reference = _built(config, kind).eval().requires_grad_(False) if shape.reference else None
    if not can_chunk(policy):
        shape = replace(shape, head_chunk=0)
    for model in (policy, reference) if shape.head_chunk else ():
        if model is not None:
            add_chunks(model)
    with FakeTensorMode(allow_non_fake_inputs=True), LiveBytes() as live:
        _place(policy)
        weights = live.now
        if reference is not None:
            _place(reference)
        with_reference = live.now
        trained = [weight for weight in policy.parameters() if weight.requires_grad]
        for weight in trained:
            weight.grad = torch.empty_like(weight)
        gradient = live.now - with_reference
        optimizer = _adamw(trained, fused=True)
        optimizer.step()
        moments = live.now - with_reference - gradient
        peaks = [live.now] * 4
        live.peak = live.now
        with _phases(policy, live, peaks):
            _passes(policy, reference, shape)
        optimizer.step()
        parameters = sum(weight.numel() for weight in policy.parameters())
        layer_sizes = [sum(weight.numel() for weight in layer.parameters()) for layer in layers(policy)]
        peaks[3] = max(peaks[3], live.peak)
        return PhaseBytes(
            parameters=parameters,
            trained=sum(weight.numel() for weight in trained),
            weights=weights,
            reference=with_reference - weights,
            gradient=gradient,
            moments=moments,
            forward=peaks[0],
            head=peaks[1],
            backward=peaks[2],
            end=peaks[3],
            layer=max(layer_sizes, default=0),
            root=parameters - sum(layer_sizes),
        )


def _config(model: str) -> Any:
    try:
        return cast("Any", AutoConfig).from_pretrained(model, local_files_only=True)
    except (ValueError, OSError, KeyError, AttributeError, TypeError) as error:
        raise CannotBuild(str(error)) from error


def _with_layers(model: str, kinds: Layers) -> Any:
    """The configuration with layers of these kinds only."""
    config = _config(model)
    text = config.get_text_config()
    text.num_hidden_layers = len(kinds)
    if isinstance(getattr(text, "layer_types", None), list):
        text.layer_types = list(kinds)
    return config


@contextmanager
def _phases(policy: Any, live: LiveBytes, peaks: list[int]) -> Generator[None]:
    """Note the peaks of a pass: until the last layer is computed, until the backward pass comes to it again, until it
    has left the first one, and from then on."""
    all_layers = layers(policy)
    first, last = all_layers[:1], all_layers[-1:]

    def ends(phase: int) -> None:
        peaks[phase] = max(peaks[phase], live.peak)
        live.peak = live.now

    def arrived(_gradient: Any) -> None:
        ends(1)

    def left(_gradient: Any) -> None:
        ends(2)

    def begun(_module: Any, inputs: Any, _named: Any) -> None:
        if inputs and inputs[0].requires_grad and torch.is_grad_enabled():
            inputs[0].register_hook(left)

    def computed(_module: Any, _inputs: Any, output: Any) -> None:
        hidden: Any = cast("Any", output)[0] if isinstance(output, tuple) else output
        if hidden.requires_grad and torch.is_grad_enabled():
            ends(0)
            hidden.register_hook(arrived)

    handles = [module.register_forward_hook(computed) for module in last]
    handles += [module.register_forward_pre_hook(begun, with_kwargs=True) for module in first]
    yield
    ends(3)
    for handle in handles:
        handle.remove()


def _policy(config: Any, shape: StepShape) -> Any:
    if shape.lora_rank is None:
        policy = _built(config, torch.float32)
    else:
        policy = added(_built(config, config.dtype or torch.float32), adapter_settings(shape.lora_rank, None))
    policy.train()
    if shape.gradient_checkpointing:
        recompute(policy)
    return policy


def _built(config: Any, dtype: torch.dtype) -> Any:
    try:
        return cast("Any", AutoModelForCausalLM).from_config(config, dtype=dtype)
    except (ValueError, KeyError, AttributeError, TypeError, ImportError) as error:
        raise CannotBuild(str(error)) from error


def _place(model: Any) -> None:
    """Give every weight and buffer a storage of its own that counts. Tied weights stay one."""
    placed: dict[int, Any] = {}
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if id(weight) not in placed:
                placed[id(weight)] = torch.nn.Parameter(
                    torch.empty(weight.shape, dtype=weight.dtype), requires_grad=weight.requires_grad
                )
            setattr(module, name, placed[id(weight)])
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, torch.empty(buffer.shape, dtype=buffer.dtype))


def _passes(policy: Any, reference: Any, shape: StepShape) -> None:
    """As `learn.trainer` takes them: forward, version 0's forward, loss, backward."""
    logprobs = _scores(policy, shape)
    if reference is not None:
        with torch.no_grad():
            away = _scores(reference, shape) - logprobs
            del away
    loss = (logprobs - logprobs.detach()).exp().sum()
    cast("Any", loss).backward()


def _scores(model: Any, shape: StepShape) -> torch.Tensor:
    """Logprobs of the answers' tokens. Their entropies are not kept."""
    ids_BL = torch.zeros((shape.rows, shape.tokens), dtype=torch.long)
    nowhere_N = torch.zeros(shape.rows * shape.answers, dtype=torch.long)

    def run(**inputs: Any) -> Any:
        with in_half("cpu", half=shape.precision == "bf16"):
            return model(**inputs, use_cache=False)

    chunk = shape.head_chunk or 0
    return scores(run, ids_BL, None, Answers(nowhere_N, nowhere_N, shape.answers, chunk=chunk))[0]


def _nothing_is_packed(*_: Any) -> None:
    """Without values transformers cannot see that no two texts share a row. It would then make a mask, and attention
    with a mask keeps more than the learner's, which has none for a row that is not padded."""


def main() -> None:
    die_with_parent()
    logging.set_verbosity_error()
    known: dict[tuple[Layers, StepShape], PhaseBytes] = {}
    for request in sys.stdin:
        shape = StepShape.from_json(request)
        try:
            answer = asdict(count(shape, known))
        except CannotBuild as error:
            words = " ".join(f"{error}".split())[:300]
            answer = {"refused": f"{Path(shape.model) / 'config.json'}: {words}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
