"""Both sides of the learner's benchmark do the same: TRL's bare trainer and pace's, on one ragged group."""

from pathlib import Path

from scripts.benchmarks.bench_learner import both_sides, distance, gradient_of, ragged_group, write_model

APART = 1e-4


def test_pace_and_the_bare_trainer_have_one_loss_and_one_gradient(tmp_path: Path) -> None:
    write_model(tmp_path / "model", width=32, layers=1, seed=0)
    group = ragged_group(rollouts=2, calls=2, seed=0)
    ours, bare = both_sides(tmp_path, group, rows=2, micro_tokens=1024)
    loss = bare.accumulate()
    assert abs(ours.accumulate(group)["loss"] - loss) < APART * abs(loss)
    there = gradient_of(bare.policy)
    assert bool((there != 0).any())
    assert distance(gradient_of(ours.policy), there) < APART
