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


def standardise(values_B: Vector, branch: str) -> Vector | Collapsed:
    """Phi: (values - mean) / (population sigma + EPS_NUM); Collapsed where sigma is not finite or below EPS_SKIP."""
    sigma = float(values_B.std())
    if not np.isfinite(sigma) or sigma < EPS_SKIP:
        return Collapsed(branch)
    return (values_B - values_B.mean()) / (sigma + EPS_NUM)
