"""What one evaluation tells of its attempts."""

from dataclasses import dataclass, field, replace

from pace_async.evaluate.base import Evaluation, EvaluationRequest
from pace_async.events import EvaluationAttempted


@dataclass(slots=True)
class Attempts:
    """The attempts of one evaluation so far, numbered on from that of its request."""

    request: EvaluationRequest
    made: list[EvaluationAttempted] = field(default_factory=list[EvaluationAttempted])

    def add(self, came: Evaluation, started_at: float, ended_at: float, *, accepted: bool) -> None:
        """One attempt and what came of it."""
        identity = self.request.id
        self.made.append(
            EvaluationAttempted(
                lease=identity.lease,
                stage=identity.stage,
                fresh=identity.fresh,
                attempt=identity.attempt + len(self.made),
                outcome=came.outcome,
                seconds=came.seconds,
                queue_seconds=came.queue_seconds,
                started_at=started_at,
                ended_at=ended_at,
                detail=came.detail,
                accepted=accepted,
            )
        )

    def result(self, last: Evaluation) -> Evaluation:
        """What came of the last attempt, with all attempts and the time that they waited together."""
        waited = sum(attempt.queue_seconds for attempt in self.made)
        return replace(last, attempts=tuple(self.made), queue_seconds=waited)


def attempted_once(request: EvaluationRequest, came: Evaluation, ended_at: float) -> Evaluation:
    """An evaluation whose one attempt has just ended."""
    attempts = Attempts(request)
    accepted = came.outcome != "infrastructure_error"
    attempts.add(came, ended_at - came.seconds, ended_at, accepted=accepted)
    return attempts.result(came)
