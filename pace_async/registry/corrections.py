"""Off-policy corrections (`learner.correction`).

The code of a correction gives log weights (`learn.correction.WeightFunction`), and that of a correction of whole calls
the log-ratio of the call (`learn.correction.RatioFunction`). A correction that leaves out tokens of the group names a
`learn.correction.TokenSelection` too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.learn import correction, m2po
    from pace_async.learn.correction import RatioFunction, TokenSelection, WeightFunction
else:
    correction, m2po = later("pace_async.learn", "correction", "m2po")


@dataclass(frozen=True, slots=True)
class OffPolicyCorrection(Entry["WeightFunction"]):
    """`ratio_to_sampler`: the surrogate's ratio is against the behaviour policy, so that its clip acts. Otherwise it is
    against the policy at the beginning of the step, and its clip has no effect. `of_calls`, in place of `code`: the
    log-ratio of a call, so that a weight depends on all of its tokens. `is_capped`: the cap truncates the weights.
    `selects` chooses the tokens of a group that count, None: all do."""

    ratio_to_sampler: bool = False
    of_calls: "Callable[[], RatioFunction] | None" = None
    is_capped: bool = True
    selects: "Callable[[], TokenSelection] | None" = None


CORRECTIONS = Registry(
    "correction",
    OffPolicyCorrection(
        "behaviour",
        "the ratio to the sampling policy is clipped",
        lambda: correction.behaviour,
        ratio_to_sampler=True,
    ),
    OffPolicyCorrection(
        "decoupled", "the ratio to the sampling policy is a truncated weight", lambda: correction.decoupled
    ),
    OffPolicyCorrection(
        "sequence",
        "the product of the ratios of the whole call is a truncated weight",
        of_calls=lambda: correction.sequence,
    ),
    OffPolicyCorrection(
        "geometric",
        "the geometric mean of the ratios of the whole call is a truncated weight",
        of_calls=lambda: correction.geometric,
    ),
    OffPolicyCorrection(
        "m2po",
        "as decoupled, without the tokens that moved farthest, until the mean squared log-ratio is within its limit",
        lambda: correction.decoupled,
        selects=lambda: m2po.m2po,
    ),
    OffPolicyCorrection(
        "none",
        "each token counts as if the policy in training had sampled it: a control",
        lambda: correction.uncorrected,
        is_capped=False,
    ),
)
