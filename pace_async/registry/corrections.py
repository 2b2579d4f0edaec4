"""Off-policy corrections (`learner.correction`) and their masks (`learner.mask`).

The code of a correction gives log weights, that of a mask the log-ratio that it compares with its bounds:
`learn.correction.WeightFunction` and `learn.correction.MaskFunction`.
"""

from dataclasses import dataclass

from pace_async.registry.base import Entry, Registry


@dataclass(frozen=True, slots=True)
class OffPolicyCorrection(Entry):
    """`ratio_to_sampler`: the surrogate's ratio is against the behaviour policy, so that its clip acts. Otherwise it is
    against the policy at the beginning of the step, and its clip has no effect."""

    ratio_to_sampler: bool = False


CORRECTIONS = Registry(
    "correction",
    OffPolicyCorrection(
        "behaviour",
        "the ratio to the sampling policy is clipped",
        "pace_async.learn.correction:behaviour",
        ratio_to_sampler=True,
    ),
    OffPolicyCorrection(
        "decoupled", "the ratio to the sampling policy is a truncated weight", "pace_async.learn.correction:decoupled"
    ),
)

MASKS = Registry(
    "mask",
    Entry("none", "no token is left out"),
    Entry("token", "tokens whose ratio is far off", "pace_async.learn.correction:token"),
    Entry("sequence", "calls whose product of ratios is far off", "pace_async.learn.correction:sequence"),
    Entry("geometric", "calls whose geometric mean of ratios is far off", "pace_async.learn.correction:geometric"),
)
