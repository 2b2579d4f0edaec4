"""The benchmark of packing counts what the passes hold, and both of its sides have one gradient."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import load_trainer
from scripts.benchmarks.bench_packing import KINDS, VOCABULARY, counted, seconds_of, simulated
from scripts.benchmarks.toys import write_llama


def test_the_tokens_and_the_gradient_of_a_simulated_group(tmp_path: Path) -> None:
    kind = replace(KINDS[0], prompt=(60, 0.2), answer=(40, 0.7), longest=100, budget=400)
    group = simulated(kind, np.random.default_rng(0))
    calls = [call for rollout in group.rollouts for call in rollout.calls]
    real = sum(len(call.prompt_ids) + len(call.completion_ids) for call in calls)
    padded, packed = (counted(group, kind.budget, packs=packs) for packs in (False, True))
    assert packed[0] == real < padded[0]
    assert packed[1] <= padded[1]
    model = write_llama(tmp_path / "model", vocab=VOCABULARY, width=16, layers=1)
    rule = TrainerConfig(micro_tokens=kind.budget)
    off, auto = (load_trainer(model, replace(rule, packing=packing), tmp_path) for packing in ("off", "auto"))
    assert float(seconds_of((off, auto), group, repeats=1).rpartition("|")[2]) < 1e-5
