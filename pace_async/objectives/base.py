"""What every objective shares: standardisation, and the rule that a branch without signal is not normalised."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EPS_NUM = 1e-8
EPS_SKIP = 1e-6

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Collapsed:
    """No update: the spread of this branch is below EPS_SKIP or not finite."""

    branch: str


def has_signal(values_B: Vector) -> bool:
    """Whether sigma is finite and at least EPS_SKIP."""
    sigma = float(values_B.std())
    return bool(np.isfinite(sigma)) and sigma >= EPS_SKIP


def standardise(values_B: Vector, branch: str) -> Vector | Collapsed:
    """Phi: (values - mean) / (population sigma + EPS_NUM); Collapsed without signal."""
    if not has_signal(values_B):
        return Collapsed(branch)
    return (values_B - values_B.mean()) / (values_B.std() + EPS_NUM)
