"""No pass of training is random: equal input gives equal logits, in a step as before it and as in the engine.

Dropout of attention, jitter of a router and the like act where a module is in training mode. They would make the
gradient and the measured movement noise. So only those modules are in that mode that need it (`calm`): the outermost
one, by which TRL sees that it trains, and those that are computed again in the backward pass. The rest computes as the
engine does. Whether this leaves no noise is asked of the model itself (`refuse_noise`).

Only imported in the learner's child process.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch

from pace_async.learn.movement import movement
from pace_async.learn.noise import rounding
from pace_async.learn.ranks import Ranks

_RANDOM = ("dropout", "drop_prob", "layerdrop", "drop_path", "jitter")
"""Parts of the names under which modules keep how random they are in training."""
_TOKENS = 64


class RandomPasses(ValueError):
    """Two passes of equal input differ. The message names the module."""


def calm(policy: Any) -> None:
    """Put a policy in training mode into the state above. Changes no weight."""
    for module in policy.modules():
        module.training = module is policy or bool(getattr(module, "gradient_checkpointing", False))
        if module.training:
            attributes = cast("dict[str, object]", vars(module))
            for name in [name for name, value in attributes.items() if isinstance(value, float)]:
                if any(part in name for part in _RANDOM):
                    setattr(module, name, 0.0)


def refuse_noise(policy: Any, ranks: Ranks) -> None:
    """Raises RandomPasses if two passes in a step's mode differ. A card may add numbers in another order. There they
    have to differ by more than rounding moves, and have drawn random numbers. Needs all ranks. Changes no weight and
    leaves the policy in the mode of a step."""
    policy.train()
    calm(policy)
    device = next(policy.parameters()).device
    with torch.no_grad():
        before = _generator_state(device)
        apart = movement(*(_logprobs(policy) for _ in range(2))).k3
        on_card = device.type != "cpu"
        allowed = rounding(policy, half=False) ** 2 if on_card else 0.0
        draws = not on_card or not torch.equal(before, _generator_state(device))
        if any(ranks.gathered(draws and not apart <= allowed)):
            raise RandomPasses(
                f"two passes of the model over one text differ (k3 {apart:.1e}): {_first_random(policy)} is random in "
                "training, so that no gradient could be trusted. Take it out of config.json or the model's code"
            )


def _generator_state(device: torch.device) -> torch.Tensor:
    """State of the device's generator, which every random number changes."""
    return torch.get_rng_state() if device.type == "cpu" else cast("Any", torch.cuda).get_rng_state(device)


def _logprobs(policy: Any) -> Any:
    """Log-probabilities of a fixed text under the policy."""
    ids = fixed_text(policy)
    logits = policy(input_ids=ids, use_cache=False).logits[:, :-1].float()
    logprobs = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])
    return logprobs.reshape(-1).double().cpu().numpy().astype(np.float64)


def fixed_text(policy: Any) -> torch.Tensor:
    """A row of _TOKENS tokens of the policy's vocabulary, on its device."""
    words = min(policy.config.get_text_config().vocab_size, 997)
    return torch.tensor([[(7 * at) % words for at in range(_TOKENS)]], device=next(policy.parameters()).device)


def _first_random(policy: Any) -> str:
    """The first module that gives two outputs for one input, with what in it or in the configuration says so."""
    passes: list[list[tuple[str, Any, Any, Any]]] = []
    for _ in range(2):
        calls: list[tuple[str, Any, Any, Any]] = []
        handles = [
            module.register_forward_hook(_recorder(name, module, calls), with_kwargs=True)
            for name, module in policy.named_modules()
        ]
        try:
            _logprobs(policy)
        finally:
            for handle in handles:
                handle.remove()
        passes.append(calls)
    for (name, kind, inputs, outputs), (_, _, inputs_again, outputs_again) in zip(*passes, strict=False):
        if inputs == inputs_again and outputs != outputs_again:
            return f"{name or 'the model'} ({kind}){_settings(policy)}"
    return f"the model{_settings(policy)}"


def _recorder(name: str, module: Any, calls: list[tuple[str, Any, Any, Any]]) -> Any:
    def record(_module: Any, inputs: Any, named: Any, output: Any) -> None:
        calls.append((name, type(module).__name__, _sums((inputs, named)), _sums(output)))

    return record


def _sums(value: Any) -> list[float]:
    """A number for each tensor in a value of lists, tuples and dictionaries."""
    return [float((tensor.double() * _weights(tensor)).sum()) for tensor in _tensors(value)]


def _weights(tensor: torch.Tensor) -> torch.Tensor:
    """So that two values that exchange places are told apart."""
    return torch.linspace(1.0, 2.0, tensor.numel(), dtype=torch.float64, device=tensor.device).reshape(tensor.shape)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[Any, Any]", value).values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from _tensors(item)


def _settings(policy: Any) -> str:
    """What config.json says about randomness, in words."""
    text: dict[str, Any] = policy.config.get_text_config().to_dict()
    settings = {name: value for name, value in text.items() if any(part in name for part in _RANDOM) and value}
    return f", with {', '.join(f'{name} {value}' for name, value in settings.items())}" if settings else ""
