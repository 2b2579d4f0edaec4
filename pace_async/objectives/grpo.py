"""Group-relative advantage, as ThetaEvolve uses it: the reward's z-score within the group.

Not per prompt: the rollouts of a group come from different islands, each with its own prompt (paper, section 3.3).
"""

from pace_async.objectives.base import Collapsed, Parameters, Vector, standardise


def grpo(rewards_B: Vector, parameters: Parameters) -> Vector | Collapsed:
    """(R - mean) / (sigma + eps)."""
    return standardise(rewards_B, "group")
