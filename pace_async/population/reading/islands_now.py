"""The present state of each island, for people and programs: progress, momentum, the last action and its reason."""

from dataclasses import asdict
from typing import cast

from pace_async.population.reading.island_types import IslandNow, LastAction
from pace_async.population.reading.record import RunRecord
from pace_async.population.reading.replay import rules_of_run
from pace_async.search.actions import progress_of, reason_in_words
from pace_async.search.state import Island, Rules
from pace_async.state.pools import view_of
from pace_async.state.run_state import RunState


def islands_now(record: RunRecord) -> list[IslandNow]:
    """One mapping for each island that has opened a lease, by number."""
    rules = rules_of_run(record.header)
    state = record.run_state
    return [_now(state.islands[number], rules, state) for number in sorted(state.islands)]


def _now(island: Island, rules: Rules, state: RunState) -> IslandNow:
    best, course = island.members[0], island.course
    return {
        "island": island.number,
        "rollouts": course.updates,
        "best_score": best.score,
        "best_candidate": best.candidate,
        "progress": progress_of(island, rules),
        "momentum": course.momentum,
        "members": len(island.members),
        "snapshots": len(course.history),
        "ideas": len(view_of(state, island).ideas) if state.memory.active else len(island.ideas),
        "ideas_aside": len(course.aside),
        "staying": course.stay,
        "since_action": course.since,
        "last_action": _last_action(island),
    }


def _last_action(island: Island) -> LastAction | None:
    acted = island.course.acted
    if acted is None:
        return None
    known = {**asdict(acted), "ideas_taken": len(acted.ideas), "why": reason_in_words(acted)}
    return cast("LastAction", {name: known[name] for name in LastAction.__annotations__})
