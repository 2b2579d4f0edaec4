"""When to end a series of evaluations early: once it is sure enough whether their mean reaches a threshold.

The rules and their numbers are those of ShinkaEvolve 0.0.7. `bayesian` asks for the probability that the mean is above
the threshold, under a normal distribution of the mean. `ci` asks whether a confidence interval (Student's t) contains
it. `hybrid` asks both. Equal scores decide at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

EQUAL = 1e-10
BEATS, FAILS, UNCERTAIN = "beats", "fails", "uncertain"


@dataclass
class EarlyStopDecision:
    """`confidence` is a probability."""

    should_stop: bool
    prediction: str
    confidence: float
    trials_used: int
    reason: str | None = None


class EarlyStopMethod:
    """A rule. Subclasses give `name` and `check`."""

    @property
    def name(self) -> str:
        """The rule's name in the metrics."""
        raise NotImplementedError

    def check(self, scores: Sequence[float], threshold: float) -> EarlyStopDecision:
        """What the scores so far say."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget earlier evaluations."""


class NoEarlyStop(EarlyStopMethod):
    """Never stops."""

    @property
    def name(self) -> str:
        return "no_early_stop"

    def check(self, scores: Sequence[float], threshold: float) -> EarlyStopDecision:
        return EarlyStopDecision(False, UNCERTAIN, 0.5, len(scores), "it never stops early")


class _Measured(EarlyStopMethod):
    """A rule that needs some scores, and the standard error of their mean."""

    def __init__(self, min_trials: int) -> None:
        self.min_trials = min_trials

    def check(self, scores: Sequence[float], threshold: float) -> EarlyStopDecision:
        trials = len(scores)
        if trials < self.min_trials:
            return EarlyStopDecision(False, UNCERTAIN, 0.5, trials, f"fewer than {self.min_trials} scores")
        mean = fmean(scores)
        error = (stdev(scores) if trials > 1 else 1.0) / math.sqrt(trials)
        if error < EQUAL:
            return EarlyStopDecision(True, BEATS if mean > threshold else FAILS, 1.0, trials, "all scores are equal")
        prediction, confidence = self.decide(mean, error, trials, threshold)
        return EarlyStopDecision(prediction != UNCERTAIN, prediction, confidence, trials, f"mean {mean:.4f}")

    def decide(self, mean: float, error: float, trials: int, threshold: float) -> tuple[str, float]:
        """(prediction, confidence). `error` is the standard error of the mean."""
        raise NotImplementedError


class BayesianEarlyStop(_Measured):
    """Stops where the probability of a mean above the threshold leaves `prob_cutoff` to 1 - `prob_cutoff`."""

    def __init__(self, prob_cutoff: float = 0.05, min_trials: int = 2) -> None:
        super().__init__(min_trials)
        self.prob_cutoff = prob_cutoff

    @property
    def name(self) -> str:
        return f"bayesian_p{self.prob_cutoff}"

    def decide(self, mean: float, error: float, trials: int, threshold: float) -> tuple[str, float]:
        return _by_probability(1 - NormalDist(mean, error).cdf(threshold), self.prob_cutoff)


class ConfidenceIntervalEarlyStop(_Measured):
    """Stops where the two-sided confidence interval of the mean does not contain the threshold."""

    def __init__(self, confidence: float = 0.90, min_trials: int = 3) -> None:
        super().__init__(min_trials)
        self.confidence = confidence

    @property
    def name(self) -> str:
        return f"ci_{int(self.confidence * 100)}"

    def decide(self, mean: float, error: float, trials: int, threshold: float) -> tuple[str, float]:
        width = _student(self.confidence, trials) * error
        if abs(mean - threshold) <= width:
            return UNCERTAIN, self.confidence
        return (BEATS if mean > threshold else FAILS), self.confidence


class HybridEarlyStop(_Measured):
    """Stops where the confidence interval lies below the threshold, or the probability is beyond its cut-off."""

    def __init__(self, prob_cutoff: float = 0.05, ci_confidence: float = 0.90, min_trials: int = 3) -> None:
        super().__init__(min_trials)
        self.prob_cutoff, self.ci_confidence = prob_cutoff, ci_confidence

    @property
    def name(self) -> str:
        return "hybrid"

    def decide(self, mean: float, error: float, trials: int, threshold: float) -> tuple[str, float]:
        if mean + _student(self.ci_confidence, trials) * error < threshold:
            return FAILS, self.ci_confidence
        return _by_probability(1 - NormalDist(mean, error).cdf(threshold), self.prob_cutoff)


def create_early_stop_method(
    method: str = "none", prob_cutoff: float = 0.05, ci_confidence: float = 0.90, min_trials: int = 3
) -> EarlyStopMethod:
    """The rule of this name: none, bayesian, ci or hybrid. Raises ValueError for another."""
    match method.lower():
        case "none" | "no_early_stop":
            return NoEarlyStop()
        case "bayesian":
            return BayesianEarlyStop(prob_cutoff, min_trials)
        case "ci" | "confidence_interval":
            return ConfidenceIntervalEarlyStop(ci_confidence, min_trials)
        case "hybrid":
            return HybridEarlyStop(prob_cutoff, ci_confidence, min_trials)
        case _:
            raise ValueError(f"{method!r} is not an early stopping method: none, bayesian, ci and hybrid are")


def _by_probability(beats: float, cutoff: float) -> tuple[str, float]:
    if beats < cutoff:
        return FAILS, 1 - beats
    return (BEATS if beats > 1 - cutoff else UNCERTAIN), beats


def _student(confidence: float, trials: int) -> float:
    """The quantile of Student's t for a two-sided interval of a mean of `trials` scores, by bisection."""
    low, high = 0.0, 1.0
    while _within(high, trials - 1) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if _within(middle, trials - 1) >= confidence else (middle, high)
    return high


def _within(bound: float, freedom: int) -> float:
    """Probability that Student's t with so many degrees of freedom lies within ± `bound`: a finite series
    (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(bound / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for power in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (power - 1) / power
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
