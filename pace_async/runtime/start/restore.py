"""The state of a resumed run: the fold over its facts, under the present configuration."""

from pace_async.config import Config
from pace_async.population.reading.record import RunRecord
from pace_async.registry.advisors import advisor_of
from pace_async.registry.objectives import trains
from pace_async.search.state import rules_of
from pace_async.state.apply import resumed
from pace_async.state.run_state import RunState, Terms


def restore(record: RunRecord, config: Config) -> RunState:
    """Takes over the record's own state. The score of the task's own program must be committed."""
    header = record.header
    terms = Terms(
        size=config.learner.group_size,
        bound=config.bound,
        rules=rules_of(config.search, header.fitness),
        trains=trains(config.learner.objective),
        policy=config.staleness.policy,
        edits=not advisor_of(config.advisor.model).has_model,
    )
    return resumed(record.run_state, terms, config.search.threads)
