"""Writes evaluation epochs: programs that are scored again, and the moment from which their scores are in force.

Invariant: `candidates` has the scores in force, so every reader and every view uses them, and `epoch_scores` has
every score that was ever in force. Both change in one transaction. Rewards that were trained stay as they were.
"""

from sqlalchemy import bindparam, func, select, text, update

from pace_async.errors import PaceBug
from pace_async.events import EpochInForce, RescoreBegan, Rescored
from pace_async.population.models import EpochScoreRow, EvaluationEpochRow
from pace_async.population.prepared import Prepared
from pace_async.population.writing.scope import OF_RUN, Scope
from pace_async.population.writing.write_snapshots import snapshots_removed

BEFORE = Prepared(
    select(func.coalesce(func.max(EvaluationEpochRow.epoch), 0)).where(
        EvaluationEpochRow.run_id == OF_RUN, EvaluationEpochRow.in_force_at.is_not(None)
    )
)
NUMBER = Prepared(
    select(func.coalesce(func.max(EvaluationEpochRow.epoch), 0) + 1).where(EvaluationEpochRow.run_id == OF_RUN)
)
_NOT_IN_FORCE = (
    EvaluationEpochRow.run_id == OF_RUN,
    EvaluationEpochRow.epoch == bindparam("of_epoch"),
    EvaluationEpochRow.in_force_at.is_(None),
)
OPEN = Prepared(select(EvaluationEpochRow.epoch).where(*_NOT_IN_FORCE))
IN_FORCE = Prepared(
    update(EvaluationEpochRow).where(*_NOT_IN_FORCE).values(in_force_at=bindparam("now"), last_lease=bindparam("last"))
)
_COLUMNS = "outcome, score, merit, detail, seconds, queue_seconds, memoised, metrics"
_KEEP = text(f"""
INSERT INTO epoch_scores (run_id, epoch, candidate, reward, at, {_COLUMNS})
SELECT c.run_id, :epoch, c.candidate, c.reward, c.at, {", ".join(f"c.{name}" for name in _COLUMNS.split(", "))}
FROM candidates c WHERE c.run_id = :run AND NOT EXISTS
(SELECT 1 FROM epoch_scores s WHERE s.run_id = c.run_id AND s.epoch = :epoch AND s.candidate = c.candidate)
""")
_TAKE = text(f"""
UPDATE candidates SET ({_COLUMNS}) = (SELECT {", ".join(f"s.{name}" for name in _COLUMNS.split(", "))}
FROM epoch_scores s WHERE s.run_id = candidates.run_id AND s.epoch = :epoch AND s.candidate = candidates.candidate)
WHERE run_id = :run AND candidate IN (SELECT candidate FROM epoch_scores WHERE run_id = :run AND epoch = :epoch)
""")
_LEAVE = text("""
UPDATE candidates SET outcome = 'below_threshold', score = NULL, merit = NULL, detail = :detail
WHERE run_id = :run AND outcome = 'ok'
AND candidate NOT IN (SELECT candidate FROM epoch_scores WHERE run_id = :run AND epoch = :epoch)
""")
_REWARD = text("""
UPDATE candidates SET reward = (SELECT s.reward FROM epoch_scores s
WHERE s.run_id = candidates.run_id AND s.epoch = :epoch AND s.candidate = candidates.candidate)
WHERE run_id = :run AND candidate IN (SELECT candidate FROM epoch_scores WHERE run_id = :run AND epoch = :epoch)
AND lease IN (SELECT lease FROM leases WHERE run_id = :run AND state = 'open' AND stage = 'complete')
""")
_BANNED = text("""
UPDATE candidates SET merit = NULL WHERE run_id = :run AND candidate IN
(SELECT s.number FROM steering s WHERE s.run_id = :run AND s.subject = 'candidate' AND s.text = 'ban' AND NOT EXISTS
(SELECT 1 FROM steering l WHERE l.run_id = s.run_id AND l.subject = s.subject AND l.number = s.number
AND l.entry > s.entry))
""")
LEFT_OUT = "not scored anew: it was not among the best by the evaluator before"
"""The detail of a program that an epoch of the best ones leaves out."""


def rescore_began(scope: Scope, fact: RescoreBegan) -> None:
    """The next epoch, not in force."""
    if scope.value(NUMBER) != fact.epoch:
        raise PaceBug(f"epoch {fact.epoch} cannot begin: its number is not the next")
    scope.record(EvaluationEpochRow, fact, began_at=fact.at)


def rescored(scope: Scope, fact: Rescored) -> None:
    """A score of an epoch that is not in force yet."""
    if scope.value(OPEN, of_epoch=fact.epoch) is None:
        raise PaceBug(f"epoch {fact.epoch} takes no scores: it is in force or never began")
    scope.record(EpochScoreRow, fact, merit=scope.merit(fact.score))


def epoch_in_force(scope: Scope, fact: EpochInForce) -> None:
    """Keeps the scores that were in force, and puts those of the epoch into `candidates`. Programs that have a score
    and are not of the epoch have none from now on, because scores of two evaluators do not compare. A snapshot of the
    facts before is void: who reads these from now on is given the new scores."""
    snapshots_removed(scope.connection, scope.run_id)
    of = {"run": scope.run_id, "epoch": fact.epoch}
    scope.connection.execute(_KEEP, {**of, "epoch": scope.value(BEFORE)})
    scope.one(
        IN_FORCE,
        lambda: f"epoch {fact.epoch} cannot come into force: it did, or never began",
        of_epoch=fact.epoch,
        now=fact.at,
        last=fact.last_lease,
    )
    scope.connection.execute(_LEAVE, {**of, "detail": LEFT_OUT})
    scope.connection.execute(_TAKE, of)
    scope.connection.execute(_BANNED, {"run": scope.run_id})
    scope.connection.execute(_REWARD, of)
