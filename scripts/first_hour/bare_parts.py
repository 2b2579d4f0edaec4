"""The parts of `scripts.first_hour.bare`. Each yields its figures as it has them."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch

from pace_async.config.learner import LearnerConfig
from pace_async.learn.movement import MovementLimits
from pace_async.learn.replayed import repeats
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.share import SharedVersion
from pace_async.learn.trainer import GroupTrainer, load_trainer
from pace_async.plan.counted import count_step
from pace_async.plan.step import StepShape
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.transfer import Table
from scripts.first_hour.made_models import FIRST_BYTE, answers, byte_model, corpus, device, random_model
from scripts.first_hour.step import group_of

Precision = Literal["fp32", "bf16"]
Figures = Iterator[dict[str, object]]

LETTER = FIRST_BYTE + ord("e")
"""What the small model is paid for."""

ANSWER = 256 if device() == "cuda" else 32
"""Tokens of an answer of the small model, and of its prompt."""

OPENS = """
import json, sys, time
import torch
from pace_async.advise.engines.shared import OpenedVersion
from pace_async.transfer import Shared
torch.zeros(1, device="cuda" if torch.cuda.is_available() else "cpu")
began = time.perf_counter()
opened = OpenedVersion(Shared.from_json(json.load(sys.stdin)))
mark, at_open = opened.mark(), time.perf_counter()
copies = [tensor.clone() for tensor in opened.tensors.values()]
total = float(sum(copy.double().sum() for copy in copies))
same, at_copy = opened.mark() == mark, time.perf_counter()
print(json.dumps([at_open - began, at_copy - at_open, total, same, opened.close()]))
"""


def steps(shape: Path, room: Path, lengths: Sequence[tuple[int, int]]) -> Figures:
    model = random_model(shape, room / "model")
    for tokens, answer in lengths:
        step = StepShape(str(model), 1, tokens, answer, "bf16", gradient_checkpointing=True)
        command = [sys.executable, "-m", "scripts.first_hour.step", step.to_json()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        told: dict[str, object] = {"part": "steps", "tokens": tokens, "answers": answer}
        if done.returncode != 0:
            yield told | {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:300]}
            continue
        measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        count = count_step(step).peak
        yield told | {
            "tokens_a_second": round(measured["tokens"] / measured["seconds"], 1),
            "counted_gib": round(count / 2**30, 2),
            "measured_gib": None if measured["peak"] is None else round(measured["peak"] / 2**30, 2),
        }


def repeated(shape: Path, room: Path, length: tuple[int, int]) -> Figures:
    model, (tokens, answer) = random_model(shape, room / "model"), length
    for precision, rank in (("bf16", None), ("bf16", 16)):
        settings = TrainerConfig(precision="bf16", lora_rank=rank, gradient_checkpointing=True, micro_tokens=tokens)
        trainer = load_trainer(model, settings, room / "out", model)
        began = time.perf_counter()
        same, took = repeats(trainer), time.perf_counter() - began
        group = group_of(StepShape(str(model), 1, tokens, answer, "bf16", gradient_checkpointing=True, lora_rank=rank))
        first, second = _gradient(trainer, group), _gradient(trainer, group)
        pairs = list(zip(first, second, strict=True))
        apart = max(_norm(one - other) / max(_norm(one), 1e-30) for one, other in pairs)
        yield {
            "part": "repeats",
            "precision": precision,
            "lora_rank": rank,
            "repeats": same,
            "seconds": round(took, 2),
            "full_length_equal": all(torch.equal(*pair) for pair in pairs),
            "largest_relative_difference": apart,
        }


def _gradient(trainer: GroupTrainer, group: Group) -> list[torch.Tensor]:
    """On the processor, where two of them have room."""
    trainer.accumulate(group)
    held = [weight.grad.detach().float().cpu() for weight in trainer.policy.parameters() if weight.grad is not None]
    trainer.policy.zero_grad()
    return held


def _norm(gradient: torch.Tensor) -> float:
    return float(cast("Any", gradient).norm())


def shared(gib: float) -> Figures:
    rows = max(1, int(gib * 2**30 / 2 / 64 / 4096))
    held = {f"weight.{at}": torch.randn(rows, 4096, device=device()).to(torch.bfloat16) for at in range(64)}
    table = Table(tuple(held), ("bfloat16",) * len(held), ((rows, 4096),) * len(held))
    version, expected = SharedVersion(), float(sum(tensor.double().sum() for tensor in held.values()))
    for _ in range(3):
        began = time.perf_counter()
        handle = version.share(held, table)
        took = time.perf_counter() - began
        command = [sys.executable, "-c", OPENS]
        done = subprocess.run(command, input=json.dumps(handle.to_json()), capture_output=True, text=True, check=True)
        opened, copied, total, same, closed = json.loads(done.stdout.splitlines()[-1])
        version.end(closed=closed)
        yield {
            "part": "shared",
            "gib": round(handle.size / 2**30, 2),
            "share_s": round(took, 3),
            "open_s": round(opened, 3),
            "copy_s": round(copied, 3),
            "right": bool(same and closed and abs(total - expected) <= 1e-6 * max(1.0, abs(expected))),
        }


def limits(room: Path, seconds: float) -> Figures:
    model, loss = byte_model(room / "model", seconds)
    yield {"part": "limits", "nats_a_byte": round(loss, 3)}
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    for precision, rate in product(precisions, (1e-6, 1e-5, 1e-4)):
        trainer = _trainer(model, room, precision, rate, _given_limits())
        steps = [trainer.step(_sampled(trainer, seed, 8, ANSWER)[0]).metrics for seed in range(6)]
        names = sorted({name for step in steps for name in step if name.startswith(("moved", "noise", "step_scale"))})
        medians = {name: statistics.median(step.get(name, 0.0) for step in steps) for name in names}
        yield {"part": "limits", "precision": precision, "rate": rate, **medians}


def learns(room: Path, seconds: float, updates: int) -> Figures:
    model, _ = byte_model(room / "model", seconds)
    arms: tuple[tuple[Precision, MovementLimits], ...] = (
        ("fp32", _given_limits()),
        ("bf16", _given_limits()),
        ("bf16", MovementLimits()),
    )
    for precision, held in arms:
        trainer = _trainer(model, room, precision, 2e-5, held)
        rewards, scales = list[float](), list[float]()
        for seed in range(updates):
            group, reward = _sampled(trainer, 1000 + seed, 16, ANSWER // 2)
            rewards.append(reward)
            scales.append(trainer.step(group).metrics.get("step_scale", 1.0))
        quarter = max(1, updates // 4)
        yield {
            "part": "learns",
            "precision": precision,
            "limits": held.hold,
            "reward_first_quarter": round(statistics.mean(rewards[:quarter]), 4),
            "reward_last_quarter": round(statistics.mean(rewards[-quarter:]), 4),
            "mean_step_scale": round(statistics.mean(scales), 3),
        }


def _given_limits() -> MovementLimits:
    """Those of a run without settings."""
    learner = LearnerConfig()
    return MovementLimits(k3=learner.max_move, ess=learner.min_move_ess, sure_k3=learner.max_sure_move)


def _trainer(model: Path, room: Path, precision: Precision, rate: float, held: MovementLimits) -> GroupTrainer:
    settings = TrainerConfig(learning_rate=rate, limits=held, precision=precision, micro_tokens=16384)
    return load_trainer(model, settings, room / "out", model)


def _sampled(trainer: GroupTrainer, seed: int, rollouts: int, length: int) -> tuple[Group, float]:
    """A group sampled from the trainer's own policy, and its mean reward: the share of LETTER in an answer."""
    text, start = corpus(), int(np.random.default_rng(seed).integers(100_000))
    ids = cast("list[int]", cast("Any", text[start : start + length]).tolist())
    drawn = answers(trainer.policy, ids, rollouts, length, seed, half=trainer.settings.precision == "bf16")
    rewards = np.array([answer.count(LETTER) / length for answer in drawn])
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    made = tuple(
        TrainedRollout(
            at + 1,
            float(advantages[at]),
            float(rewards[at]),
            (TrainedCall(tuple(ids), tuple(answer), tuple(trainer.logprobs(ids, answer)), (0,) * length),),
        )
        for at, answer in enumerate(drawn)
    )
    return Group(seed + 1, 0, "grpo", 0.0, 0, made), float(rewards.mean())
