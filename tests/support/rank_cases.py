"""Steps of the learner that one process and several ranks must take alike, and the ranks that take them.

`python -m tests.support.rank_cases CASES COUNT FOLDER` imports torch and TRL once, then forks into COUNT ranks before
anything is computed. Rank 0 leaves the result of each case in FOLDER. The toy model is in FOLDER/model.
"""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from pace_async.children import clean_environment
from pace_async.learn.correction import Correction
from pace_async.learn.movement import MovementLimits
from pace_async.learn.ranks import ALONE, LOOPBACK, Meeting, Ranks, join
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.shards import local, whole
from pace_async.learn.store import optimizer_state, whole_weights
from pace_async.learn.trainer import load_trainer
from pace_async.objectives import Collapsed, advantages
from pace_async.registry.corrections import CORRECTIONS
from pace_async.registry.objectives import OBJECTIVES
from pace_async.replay.group import Group
from tests.support.learn_toys import random_group

VOCAB = 40
USUAL = TrainerConfig(learning_rate=1e-4, micro_tokens=100)
DEADLINE_S = 550.0


@dataclass(frozen=True, slots=True)
class Case:
    """Two steps with these settings, on groups of `rollouts` with at most `calls` each. `objective`: it gives the
    advantages, which are random otherwise."""

    settings: TrainerConfig
    rollouts: int = 6
    calls: int = 3
    objective: str | None = None

    def groups(self) -> list[Group]:
        groups: list[Group] = []
        for update in range(2):
            group = random_group(
                vocab=VOCAB, seed=11 + update, update=update, rollouts=self.rollouts, calls=self.calls, max_age=2
            )
            groups.append(group if self.objective is None else _rewarded(group, self.objective))
        return groups


def _rewarded(group: Group, objective: str) -> Group:
    found = advantages(objective, [rollout.reward for rollout in group.rollouts], k=3, alpha=0.5, collapsed="skip")
    assert not isinstance(found, Collapsed)
    rollouts = zip(group.rollouts, found, strict=True)
    return replace(group, rollouts=tuple(replace(rollout, advantage=value) for rollout, value in rollouts))


def _corrected(**rule: Any) -> Case:
    return Case(replace(USUAL, correction=Correction(**rule)))


OBJECTIVE_CASES = {
    f"objective {entry.name}": Case(replace(USUAL, kl_penalty=entry.kl_penalty), objective=entry.name)
    for entry in OBJECTIVES.values()
    if entry.trains
}
CORRECTION_CASES = {f"correction {kind}": _corrected(kind=kind) for kind in CORRECTIONS}
FEW = {
    "fewer calls than ranks": Case(USUAL, rollouts=1, calls=1),
    "one pass for all": Case(replace(USUAL, micro_tokens=10_000)),
    "a call in each pass": Case(replace(USUAL, micro_tokens=1)),
    "halved": Case(replace(USUAL, learning_rate=1e-3, limits=MovementLimits(k3=1e-4, ess=0.9))),
    "undone": Case(replace(USUAL, learning_rate=3e-3, limits=MovementLimits(k3=1e-7))),
    "recomputed": Case(replace(USUAL, gradient_checkpointing=True)),
    "clipped": Case(replace(USUAL, max_grad_norm=1e-3)),
    "half precision": Case(replace(USUAL, precision="bf16", gradient_checkpointing=True, kl_penalty=0.1)),
    "packed rows": Case(replace(USUAL, packing="auto", kl_penalty=0.1)),
    "packed rows and fewer calls than ranks": Case(replace(USUAL, packing="auto"), rollouts=1, calls=1),
    "a head in chunks": Case(replace(USUAL, head_chunk=3, kl_penalty=0.1)),
    "a head in chunks and fewer calls than ranks": Case(replace(USUAL, head_chunk=3), rollouts=1, calls=1),
}
ADAPTERS = replace(USUAL, lora_rank=2, learning_rate=1e-2)
ADAPTER_CASES = {
    "adapters": Case(ADAPTERS),
    "adapters with fewer calls than ranks": Case(ADAPTERS, rollouts=1, calls=1),
    "adapters with m2po and a penalty": Case(replace(ADAPTERS, kl_penalty=0.1, correction=Correction("m2po"))),
    "adapters and a head in chunks": Case(replace(ADAPTERS, head_chunk=3)),
    "adapters with packed rows and a head in chunks": Case(replace(ADAPTERS, packing="auto", head_chunk=3)),
    "adapters halved": Case(replace(ADAPTERS, learning_rate=0.3, limits=MovementLimits(k3=0.01, ess=0.9))),
}
"""Beside adapters, the cases train all weights."""
CASES = {**OBJECTIVE_CASES, **CORRECTION_CASES, **FEW, **ADAPTER_CASES}


@dataclass(frozen=True, slots=True)
class Took:
    """The result of a case: the first group's gradient, each step's reason and metrics, the last weights and moments.
    `share` is the part of the trained weights that this rank keeps, and `kind` the number type of a layer's matrix in a
    pass."""

    gradient: dict[str, torch.Tensor]
    steps: list[tuple[str, dict[str, float]]]
    state: dict[str, torch.Tensor]
    share: float
    kind: str


def take(case: Case, model: Path, out: Path, ranks: Ranks = ALONE) -> Took:
    """Take a case's steps. Needs all ranks."""
    trainer = load_trainer(model, case.settings, out, model, ranks=ranks)
    groups = case.groups()
    kinds: set[str] = set()
    matrix = next(module for module in trainer.policy.modules() if isinstance(module, torch.nn.Linear))
    seen = matrix.register_forward_pre_hook(lambda module, _: kinds.add(str(module.weight.dtype)))
    trainer.accumulate(groups[0])
    seen.remove()
    [kind] = kinds
    gradient = {
        name: whole(weight.grad).clone()
        for name, weight in trainer.policy.named_parameters()
        if weight.grad is not None
    }
    taken = [trainer.step(group) for group in groups]
    state = {**whole_weights(trainer), **optimizer_state(trainer)}
    state = {name: tensor.detach().clone() for name, tensor in state.items()}
    trained = [weight for weight in trainer.policy.parameters() if weight.requires_grad]
    kept = sum(local(weight.detach()).untyped_storage().nbytes() for weight in trained)
    share = kept / sum(weight.numel() * weight.element_size() for weight in trained)
    return Took(gradient, [(one.reason, one.metrics) for one in taken], state, share, kind)


def on_ranks(names: Sequence[str], count: int, folder: Path) -> dict[str, Took]:
    """The result of each case on `count` ranks. The toy model is in `folder`/model."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.rank_cases", ",".join(names), str(count), str(folder)],
        env=clean_environment(OMP_NUM_THREADS="1", **LOOPBACK),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: Took(*torch.load(_place(folder, count, name))) for name in names}


def _place(folder: Path, count: int, name: str) -> Path:
    return folder / f"{count} {name}.pt"


def _rank(meeting: Meeting, names: Sequence[str], folder: Path) -> None:
    ranks = join(meeting)
    for name in names:
        with tempfile.TemporaryDirectory() as out:
            took = take(CASES[name], folder / "model", Path(out), ranks)
        if ranks.first:
            torch.save(
                (took.gradient, took.steps, took.state, took.share, took.kind), _place(folder, ranks.count, name)
            )


def main() -> int:
    names, count, folder = sys.argv[1].split(","), int(sys.argv[2]), Path(sys.argv[3])
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    children: list[int] = []
    for number in range(count):
        if (child := os.fork()) == 0:
            status = 1
            try:
                _rank(
                    Meeting(number, count, "127.0.0.1", port, listener.fileno() if number == 0 else None), names, folder
                )
                status = 0
            except BaseException as error:
                sys.excepthook(type(error), error, error.__traceback__)
            finally:
                os._exit(status)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return int(any(ends))


if __name__ == "__main__":
    sys.exit(main())
