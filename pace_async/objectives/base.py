"""What all objectives share: signature, standardisation, and the rule that noise is never normalised."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

EPS_NUM = 1e-8
EPS_SKIP = 1e-6

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parameters:
    """What an objective may use besides the rewards. `k` is that of the best-of-k branch, 1 to B. `alpha` in [0, 1] is
    the weight of that branch. `restandardise`: standardise the mixture once more. `other_branch`: if one branch of the
    mixture has collapsed, the other one has the whole weight."""

    k: int
    alpha: float = 0.0
    restandardise: bool = False
    other_branch: bool = False


@dataclass(frozen=True, slots=True)
class Collapsed:
    """No update: the spread of this branch is below EPS_SKIP or not finite."""

    branch: str


class ObjectiveFunction(Protocol):
    """Type of the code of an entry in `registry.objectives`."""

    def __call__(self, rewards_B: Vector, parameters: Parameters, /) -> Vector | Collapsed:
        """B finite advantages for B finite rewards. Raises ValueError for parameters out of range."""
        ...


def has_signal(values_B: Vector) -> bool:
    """Whether sigma is finite and at least EPS_SKIP. Equal values have no signal, although rounding may give them a
    sigma above 0."""
    return _tells_apart(values_B, float(values_B.std()))


def standardise(values_B: Vector, branch: str) -> Vector | Collapsed:
    """Phi: (values - mean) / (population sigma + EPS_NUM), or Collapsed without signal."""
    sigma = float(values_B.std())
    if not _tells_apart(values_B, sigma):
        return Collapsed(branch)
    return (values_B - values_B.mean()) / (sigma + EPS_NUM)


def _tells_apart(values_B: Vector, sigma: float) -> bool:
    return math.isfinite(sigma) and sigma >= EPS_SKIP and bool((values_B != values_B[0]).any())
