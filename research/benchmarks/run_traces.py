"""Reads a finished run for a comparison: curves over its candidates and its updates, and its best program."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research.benchmarks.bench_runs import NEAR, connect
from research.benchmarks.objectives_plot import Curve


@dataclass(frozen=True, slots=True)
class Trace:
    """One run. Best so far after each candidate, the seed program included: the score (negated if lower is better), the
    reward, and the score's mean place between the bounds. The mean reward of valid candidates in the last quarter. The
    seed program's score. Seconds from the first lease to the last score, interruptions included. For each trained
    update: nats a token, and the norm of the gradient before clipping. For each group: the standard deviation of its
    rewards. `metrics` are the scorer's further metrics of
    the best program."""

    best: Curve
    best_reward: Curve
    area: float
    valid_reward: float
    seed_score: float
    seconds: float
    entropy: Curve
    grad_norm: Curve
    reward_spread: Curve
    metrics: Mapping[str, float]


def read(folder: Path) -> Trace:
    """One finished run."""
    database = connect(folder)
    [direction, lower, upper] = database.execute("select direction, lower, upper from runs").fetchone()
    sign = 1.0 if direction == "maximize" else -1.0
    [seed_score, seed_reward] = database.execute("select score, reward from candidates where candidate = 0").fetchone()
    rows = database.execute(
        "select score, reward from candidates where lease is not null order by at, candidate"
    ).fetchall()
    found = np.array([-np.inf if score is None else sign * score for score, _ in rows])
    valid = [reward for score, reward in rows[-(len(rows) // 4) :] if score is not None]
    best: Any = np.maximum(np.maximum.accumulate(found), sign * seed_score)
    best_reward: Any = np.maximum.accumulate([max(seed_reward, reward) for _, reward in rows])
    low, high = sorted((sign * lower, sign * upper))
    [seconds] = database.execute(
        "select max(c.at) - min(l.opened_at) from candidates c join leases l on l.lease = c.lease"
    ).fetchone()
    places: Any = np.clip((best - low) / (high - low), 0.0, 1.0)
    updates = database.execute(
        "select entropy, grad_norm from groups where state = 'trained' order by group_number"
    ).fetchall()
    rewards: dict[int, list[float]] = {}
    for group, reward in database.execute(
        "select group_number, group_reward from leases where group_number is not null and group_reward is not null "
        "order by group_number"
    ):
        rewards.setdefault(group, []).append(reward)
    [metrics] = database.execute(
        "select metrics from candidates where merit is not null order by merit desc, candidate limit 1"
    ).fetchone()
    return Trace(
        best=best,
        best_reward=best_reward,
        area=float(places.mean()),
        valid_reward=float(np.mean(valid)) if valid else float("nan"),
        seed_score=sign * seed_score,
        seconds=seconds,
        entropy=np.array([entropy for entropy, _ in updates], dtype=np.float64),
        grad_norm=np.array([norm for _, norm in updates], dtype=np.float64),
        reward_spread=np.array([np.std(of_group) for of_group in rewards.values()], dtype=np.float64),
        metrics=json.loads(metrics),
    )


def until(trace: Trace, best: float) -> int:
    """Candidates until NEAR of the way from the seed program to `best`, all if it was never reached."""
    reached = np.nonzero(trace.best >= trace.seed_score + NEAR * (best - trace.seed_score))[0]
    return int(reached[0]) + 1 if len(reached) else len(trace.best)
