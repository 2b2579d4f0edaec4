"""What a resume may change, what is left to do, and how both are recorded.

Invariant: a setting may change on resume only if three things hold. The recorded groups still give the same training.
Scores and rewards before and after can still be compared. The islands can still be rebuilt from the rows. Every setting
is in `MAY_CHANGE`, or under a name of `WHY_NOT`.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pace_async.config import Config
from pace_async.configure import flat, known_keys, resolve
from pace_async.errors import UsageError
from pace_async.events import FaultSeen, ImplementerCalled, RunHeader, SettingChanged
from pace_async.population.reading.record import Standing
from pace_async.providers.base import CALLERS
from pace_async.state.stop_rules import STOP_RULES, StopValues, reason_to_stop

MAY_CHANGE = (
    "stop",
    "faults",
    "implementer",
    "prompts",
    "search.untried_kept",
    "search.notes_every",
    "search.trials_shown",
    "search.summary_from",
    "search.parents",
    "search.tournament_size",
    "search.tournament_pool",
    "search.migration",
    "search.top_k",
    "search.puct_exploration",
    "search.grid_bins",
    "search.backtracking",
    "search.actions",
    "search.momentum_trigger",
    "search.action_interval",
    "search.backtrack_stay",
    "staleness.max_staleness",
    "advisor.engine",
    "advisor.transport",
    "advisor.fetch_from",
    "advisor.push_timeout_s",
    "advisor.max_tokens",
    "advisor.max_tokens_by_call",
    "advisor.chat_template",
    "advisor.thinking",
    "advisor.end_of_thinking",
    "advisor.first_word",
    "advisor.requests",
    "advisor.api_base",
    "advisor.options",
    "advisor.deadline_s",
    "advisor.price_per_million_in",
    "advisor.price_per_million_out",
    "advisor.max_prompt_tokens",
    "advisor.timeout_s",
    "advisor.engine_start_s",
    "advisor.threads",
    "advisor.kv_cache_gib",
    "advisor.gpus",
    "advisor.gpu_memory",
    "advisor.probe_limit",
    "advisor.engine_arguments",
    "evaluation.evaluators",
    "evaluation.ray_address",
    "evaluation.ray_timeout_s",
    "evaluation.ray_silence_s",
    "evaluation.ray_goes_on_s",
    "evaluation.ray_keeps_s",
    "evaluation.ray_resources",
    "evaluation.slots",
    "evaluation.warm",
    "evaluation.memo",
    "evaluation.retries",
    "evaluation.practice",
    "learner.max_length",
    "learner.checkpoint_every",
    "learner.gradient_checkpointing",
    "learner.gpus",
    "learner.cpu_ranks",
    "learner.step_timeout_s",
)
"""Settings that may change, and rooms whose settings may all change. The bound may only be raised."""

WHY_NOT = {
    "baseline": "it is compared with the run from its first candidate on",
    "task": "scores would not compare",
    "seed": "every random draw of the run derives from it",
    "population": "the rows stay where they are",
    "search.threads": "each thread is an island, and the islands are there",
    "search": "the islands are rebuilt from the rows with it",
    "staleness.mode": "a run goes on as it began, sync or async",
    "staleness.policy": "open rollouts were admitted under it",
    "advisor.model": "the versions trained so far are of this model",
    "advisor.role": "advice and edits would share a group",
    "advisor.calls": "rollouts of one call and of three would share a group",
    "advisor.temperature": "what is recorded was sampled at it",
    "tinker": "the versions trained so far are at this service",
    "evaluation": "scores would not compare",
    "learner": "the learner rebuilds its weights from the recorded groups with it",
    "reward": "rewards would not compare",
}

UNSTATED: dict[str, object] = {
    "learner.warmup": 0,
    "learner.max_move": None,
    "learner.min_move_ess": None,
    "learner.max_sure_move": None,
    "learner.rollback": False,
    "learner.collapsed": "skip",
    "learner.head_chunk": 0,
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
        if not _under(key, MAY_CHANGE):
            why = next(WHY_NOT[name] for name in sorted(WHY_NOT, key=len, reverse=True) if _under(key, (name,)))
            raise UsageError(f"{key} is {old} in this run and cannot become {new} on resume: {why}.")
    if config.learner.other_ideas != 1.0 and config.advisor.end_of_thinking != before.advisor.end_of_thinking:
        raise UsageError(
            f"advisor.end_of_thinking is {before.advisor.end_of_thinking} in this run and cannot change on resume: "
            f"with learner.other_ideas the learner finds ideas after it, and {WHY_NOT['learner']}."
        )
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
        facts.append(ImplementerCalled(lease, open_one.model, "unknown", 0, 0, usd, 0.0, now, number, role=role))
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


def _under(key: str, names: tuple[str, ...]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)
