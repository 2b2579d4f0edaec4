"""Measures the effect of each group of a run on the advisor: the learner trains the run's groups again.

    pace run --run-dir RUN --set learner.checkpoint_every=1000  # so that no group file is removed
    python research/benchmarks/replay_groups.py RUN  # resumable: measured updates are not measured again
    python research/benchmarks/replay_groups.py RUN --set learner.tiny_learning_rate=3e-5 --out /tmp/slower

For each update it prints these figures over the tokens of its own group:

- ESS and k3 against the behaviour policies;
- `moved`: k3 between the policy before the step and after it;
- `format`: the share of `moved` at tokens that the policy was sure of (sampled with a probability of 0.9 or more), and
  `format k3`: their mean;
- `rare`: the share at tokens sampled with less than 0.01;
- entropy and gradient norm;
- failures (reward below 0), their share of the weight Σ|advantage|·tokens, and their largest negative advantage;
- |m|/√v: the mean length of AdamW's step in units of the learning rate.

`--tokens N` names the N tokens that moved most in each update. One line of JSON for each update goes to
OUT/updates.jsonl, the weights go to OUT/checkpoints. OUT is RUN/replayed by default.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from transformers import AutoTokenizer

from pace_async.configure import flat, resolve
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.store import LearnerStore, StepRecord
from pace_async.learn.trainer import GroupTrainer, load_trainer
from pace_async.replay.group import Group
from pace_async.replay.groupfile import read_digested
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.run_paths import RunPaths
from pace_async.yaml_text import read_mapping, value_of

SURE = math.log(0.9)
RARE = math.log(0.01)
COLUMNS = (
    *("update", "ess", "k3", "moved", "format", "format_k3", "rare", "entropy", "grad_norm"),
    *("failures", "their_weight", "worst_advantage", "step_length", "scale"),
)


def main() -> int:
    """Train the groups that were not trained yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="KEY=VALUE")
    parser.add_argument("--updates", type=int, default=10**6, help="stop after so many")
    parser.add_argument("--tokens", type=int, default=0, help="name the tokens that moved most")
    chosen = parser.parse_args()
    out: Path = chosen.out or chosen.run / "replayed"
    paths = RunPaths(chosen.run)
    overrides = {key: value_of(text, key) for key, _, text in (one.partition("=") for one in chosen.sets)}
    config = resolve(None, {**flat(read_mapping(paths.config)), **overrides}, environment={})
    model, settings = advisor_folder(config.advisor.model), TrainerConfig.of(config)
    groups = groups_of(paths.groups)
    store = LearnerStore(model, out)
    done = store.checkpoints()[-1].version if store.checkpoints() else 0
    lines = out / "updates.jsonl"
    kept = [json.loads(line) for line in lines.read_text().splitlines()] if lines.is_file() else []
    kept = [line for line in kept if line["update"] < done]
    lines.write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    print_row(COLUMNS)
    for line in kept:
        print_row([line[name] for name in COLUMNS])
    trainer = load_trainer(store.checkpoint(done) if done else model, settings, out, model)
    if done:
        store.load_optimizer(trainer, done)
    words = cast("Any", AutoTokenizer).from_pretrained(model, local_files_only=True)
    for path in groups[done : chosen.updates]:
        group, digest = read_digested(path)
        line = {"update": group.update, **measured(trainer, group)}
        moved = cast("list[tuple[float, int]]", line.pop("tokens_moved"))
        store.save_checkpoint(trainer, StepRecord(group.update + 1, digest, {}, 0.0))
        store.prune(group.update + 1)
        with lines.open("a") as stream:
            stream.write(json.dumps(line) + "\n")
        print_row([line[name] for name in COLUMNS])
        for gap, place in moved[: chosen.tokens]:
            print(f"    {gap:+.3f} {named(words, group, place)}")
        sys.stdout.flush()
    return 0


def groups_of(folder: Path) -> list[Path]:
    """Files of the trained groups, for each version the group that trained it last."""
    by_update = {read_digested(path)[0].update: path for path in sorted(folder.glob("[0-9]*.safetensors"))}
    return [by_update[update] for update in sorted(by_update)]


def measured(trainer: GroupTrainer, group: Group) -> dict[str, Any]:
    """Take the group's step. Returns its effect."""
    before_N = policy_logprobs(trainer, group)
    taken = trainer.step(group)
    after_N = policy_logprobs(trainer, group)
    sampled_N = np.concatenate([call.logprobs for rollout in group.rollouts for call in rollout.calls])
    gap_N = after_N - before_N
    k3_N = np.exp(gap_N) - 1.0 - gap_N
    failed = [rollout for rollout in group.rollouts if rollout.reward < 0]
    weight = {one.lease: abs(one.advantage) * sum(len(c.completion_ids) for c in one.calls) for one in group.rollouts}
    states = cast("Any", trainer.adamw.state)
    beta1, beta2 = trainer.settings.betas
    lengths: list[float] = []
    for state in states.values():
        count = float(state["step"])
        first, second = state["exp_avg"] / (1 - beta1**count), state["exp_avg_sq"] / (1 - beta2**count)
        lengths.append(float((first.abs() / (second.sqrt() + 1e-8)).mean()))
    total = float(k3_N.sum()) or 1.0
    sure = sampled_N >= SURE
    order = np.argsort(-np.abs(gap_N))
    return {
        **{name: taken.metrics.get(name) for name in ("ess", "k3", "entropy", "grad_norm", "loss")},
        "reason": taken.reason,
        "scale": taken.metrics.get("step_scale", 1.0),
        "moved": float(k3_N.mean()),
        "format": float(k3_N[sure].sum()) / total,
        "format_k3": float(k3_N[sure].mean()),
        "rare": float(k3_N[sampled_N < RARE].sum()) / total,
        "failures": len(failed),
        "their_weight": sum(weight[one.lease] for one in failed) / sum(weight.values()),
        "worst_advantage": min(one.advantage for one in group.rollouts),
        "step_length": float(np.mean(lengths)) if lengths else 0.0,
        "tokens_moved": [(float(gap_N[at]), int(at)) for at in order[:20]],
    }


def policy_logprobs(trainer: GroupTrainer, group: Group) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Log-probability of every answer token in nats, in the order of the group file."""
    with torch.no_grad():
        parts = [
            trainer.logprobs(list(call.prompt_ids), list(call.completion_ids))
            for rollout in group.rollouts
            for call in rollout.calls
        ]
    return np.concatenate(parts)


def named(words: Any, group: Group, place: int) -> str:
    """The token at this place, after the token before it."""
    for rollout in group.rollouts:
        for call in rollout.calls:
            if place < len(call.completion_ids):
                before = words.decode(call.completion_ids[max(0, place - 8) : place])
                token, chance = words.decode([call.completion_ids[place]]), math.exp(call.logprobs[place])
                said = f"after …{before!r}: {token!r}, sampled with {chance:.4f}"
                return f"lease {rollout.lease} (advantage {rollout.advantage:+.2f}) {said}"
            place -= len(call.completion_ids)
    raise IndexError(place)


def print_row(values: Any) -> None:
    """One line, columns of equal width."""
    cells = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
    print(" ".join(f"{cell:>9.9}" for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
