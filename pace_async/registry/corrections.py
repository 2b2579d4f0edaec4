"""Off-policy corrections (`learner.correction`) and their masks (`learner.mask`).

The code of a correction gives log weights (`learn.correction.WeightFunction`), that of a mask the log-ratio that it
compares with its bounds, and that of a correction of whole calls the log-ratio of the call
(`learn.correction.RatioFunction`). A correction that leaves out tokens of the group names a
`learn.correction.TokenSelection` too.
"""

from dataclasses import dataclass

from pace_async.registry.base import Entry, Registry


@dataclass(frozen=True, slots=True)
class OffPolicyCorrection(Entry):
    """`ratio_to_sampler`: the surrogate's ratio is against the behaviour policy, so that its clip acts. Otherwise it is
    against the policy at the beginning of the step, and its clip has no effect. `of_calls`: a weight depends on all
    tokens of the call. `is_capped`: the cap truncates the weights. `selects`: `module:attribute`
    of what chooses the tokens of a group that count."""

    ratio_to_sampler: bool = False
    of_calls: bool = False
    is_capped: bool = True
    selects: str = ""


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
    OffPolicyCorrection(
        "sequence",
        "the product of the ratios of the whole call is a truncated weight",
        "pace_async.learn.correction:sequence",
        of_calls=True,
    ),
    OffPolicyCorrection(
        "geometric",
        "the geometric mean of the ratios of the whole call is a truncated weight",
        "pace_async.learn.correction:geometric",
        of_calls=True,
    ),
    OffPolicyCorrection(
        "m2po",
        "as decoupled, without the tokens that moved farthest, until the mean squared log-ratio is within its limit",
        "pace_async.learn.correction:decoupled",
        selects="pace_async.learn.m2po:m2po",
    ),
    OffPolicyCorrection(
        "none",
        "each token counts as if the policy in training had sampled it: a control",
        "pace_async.learn.correction:uncorrected",
        is_capped=False,
    ),
)

MASKS = Registry(
    "mask",
    Entry("none", "no token is left out"),
    Entry("token", "tokens whose ratio is far off", "pace_async.learn.correction:token"),
    Entry("sequence", "calls whose product of ratios is far off", "pace_async.learn.correction:sequence"),
    Entry("geometric", "calls whose geometric mean of ratios is far off", "pace_async.learn.correction:geometric"),
)
