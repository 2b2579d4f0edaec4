"""What a resume may change, what is left to do, and how both are recorded.

Each setting says where it is declared whether it may change (`config.section.OnResume`).
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pace_async.config import Config
from pace_async.configure import flat, known_keys, on_resume, resolve
from pace_async.errors import UsageError
from pace_async.events import CUT_OFF, FaultSeen, ImplementerCalled, RunHeader, SettingChanged
from pace_async.population.reading.record import Standing
from pace_async.providers.base import CALLERS
from pace_async.state.stop_rules import STOP_RULES, StopValues, reason_to_stop

UNSTATED: dict[str, object] = {
    "learner.warmup": 0,
    "learner.max_move": None,
    "learner.min_move_ess": None,
    "learner.max_sure_move": None,
    "learner.rollback": False,
    "learner.collapsed": "skip",
    "learner.head_chunk": 0,
    "learner.packing": "off",
    "search.memory_mb": None,
    "search.memory": "pool",
}
"""What a run that does not state a setting began with: one that is older than the setting trained and searched without
it, and its recorded groups must train the same again."""


def resumed_config(standing: Standing, changes: Mapping[str, object]) -> Config:
    """The run's configuration with the allowed changes. Raises UsageError for a change that is not allowed."""
    before = _config_of(standing)
    config = resolve(None, {**_flat(before), **changes}, environment={})
    for key, old, new in _differences(before, config):
        if reason := on_resume()[key].why_not:
            raise UsageError(f"{key} is {old} in this run and cannot become {new} on resume: {reason}.")
    limit = config.stop.candidates
    if limit is not None and limit != before.stop.candidates and limit < standing.candidates:
        raise UsageError(
            f"--candidates {limit} is below the {standing.candidates} candidates that are evaluated already: "
            "name more, or leave it out."
        )
    if config.bound < standing.header.max_staleness:
        raise UsageError(
            f"--max-staleness was {standing.header.max_staleness} and may not be lowered to {config.bound} on resume: "
            "open rollouts were admitted under the older bound."
        )
    if config.staleness.mode == "sync" and "staleness.max_staleness" in changes:
        raise UsageError("A synchronous run has no bound to raise: leave --max-staleness out.")
    return config


def in_force(header: RunHeader, config: Config) -> RunHeader:
    """The header with the present settings, for displays. The run's row keeps the original settings."""
    return replace(
        header,
        engine=config.advisor.served_by,
        implementer=config.implementer.model,
        max_staleness=config.bound,
        config=config.model_dump(mode="json"),
    )


def nothing_left(standing: Standing, config: Config) -> str | None:
    """Why a finished run has nothing left to do, and which limit to raise. None if it goes on. The minutes of a limit
    are counted from zero in each process."""
    best = standing.best.score if standing.best is not None else None
    progress = StopValues(standing.candidates, standing.groups, 0.0, standing.spend_usd, best)
    reason = reason_to_stop(config.stop, progress, standing.header.fitness) if standing.finished else None
    if reason is None:
        return None
    rule = STOP_RULES[reason]
    stands = rule.stands.format(done=rule.done(progress), limit=getattr(config.stop, reason))
    return f"nothing to do, {stands}. `{rule.raised}` asks for more."


def setting_changes(standing: Standing, config: Config) -> tuple[SettingChanged, ...]:
    """The settings that a resume has changed, each as a whole."""
    return tuple(
        SettingChanged(key, old, new, time.time()) for key, old, new in _differences(_config_of(standing), config)
    )


def cut_off(standing: Standing) -> tuple[ImplementerCalled | FaultSeen, ...]:
    """Calls that were in flight when an earlier process died. It is unknown whether the provider charged for them, so
    they count with their whole reservation."""
    facts: list[ImplementerCalled | FaultSeen] = []
    for open_one in standing.reserved:
        lease, usd, now = open_one.lease, open_one.cost_usd, time.time()
        number, role = open_one.number, open_one.role
        facts.append(ImplementerCalled(lease, open_one.model, CUT_OFF, 0, 0, usd, 0.0, now, number, role=role))
        detail = (
            f"a call of {open_one.model} was in flight when the run ended: counted as {usd:.6f} USD, all it may cost"
        )
        facts.append(FaultSeen(CALLERS[role].stage, "unknown_outcome", detail, lease, now))
    return tuple(facts)


def _config_of(standing: Standing) -> Config:
    return resolve(None, {**UNSTATED, **flat(standing.header.config), **standing.changes}, environment={})


def _flat(config: Config) -> dict[str, object]:
    return flat(config.model_dump(mode="json"))


def _differences(before: Config, after: Config) -> Iterator[tuple[str, str, str]]:
    """Settings that differ, with both values as JSON."""
    old, new = _flat(before), _flat(after)
    for key in known_keys():
        was, becomes = json.dumps(old[key], sort_keys=True), json.dumps(new[key], sort_keys=True)
        if was != becomes:
            yield key, was, becomes
