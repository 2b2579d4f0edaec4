"""One token for each row, by inverse transform.

Invariant: a row's token depends on its own logits, temperature and uniform number only. Batches of different shapes
differ by float noise (about 1e-6 in a probability), so a row's answer may leave the one it would have given alone
only where its uniform number lies that close to a boundary between two tokens.
"""

from typing import Any

import torch
from torch import Tensor


def draw_uniforms(seed: int, count: int) -> list[float]:
    """`count` numbers in [0, 1) from a generator of the request's own, doubles."""
    generator = torch.Generator().manual_seed(seed)
    return _listed(torch.rand(count, generator=generator, dtype=torch.float64))


def sample(logits_BV: Tensor, temperatures_B: Tensor, uniforms_B: Tensor) -> tuple[list[int], list[float]]:
    """Tokens, and their log-probabilities in nats under softmax(logits / temperature), both of length B. A row with
    a logit that is not finite yields a log-probability that is not finite."""
    logprobs_BV = torch.log_softmax(logits_BV.float() / temperatures_B[:, None], dim=-1)
    cumulative_BV = logprobs_BV.double().exp().cumsum(-1)
    targets_B1 = (uniforms_B * cumulative_BV[:, -1])[:, None]
    tokens_B1 = torch.searchsorted(cumulative_BV, targets_B1, right=True).clamp_(max=logits_BV.shape[1] - 1)
    return _listed(tokens_B1[:, 0]), _listed(logprobs_BV.gather(1, tokens_B1)[:, 0])


def _listed(tensor: Any) -> list[Any]:
    return tensor.tolist()
