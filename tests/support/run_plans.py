"""Plans of runs whose steps are given, not counted."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.plan.needs import GIB
from pace_async.plan.places import Capacity, CardMemory, Owned
from pace_async.plan.planned import Model, Plan, plan_of
from pace_async.plan.step import StepBytes, StepShape

SHAPES = Path(__file__).parents[2] / "scripts" / "documentation" / "shapes" / "models"
QWEN, R1 = SHAPES / "qwen3.5-4b", SHAPES / "deepseek-r1-0528-qwen3-8b"
BILLIONS = 4
STEP = StepBytes(
    parameters=BILLIONS * 10**9,
    trained=BILLIONS * 10**9,
    weights=16 * 10**9,
    reference=0,
    gradient=16 * 10**9,
    moments=32 * 10**9,
    peak=94 * 10**9,
    layer=10**8,
    root=8 * 10**8,
)
SERVED = 8e9 + 2 * 248_320 * 2560
"""Bytes that vLLM serves: all weights, and the head that the model ties to its embedding."""
ONE: Owned = {"learner": ["0"], "engine": ["0"]}
TWO: Owned = {"learner": ["0"], "engine": ["1"]}


def count(shape: StepShape) -> StepBytes:
    """Passes of 30 GB, a fifth of it if activations are recomputed, half in bf16. Adapters are a hundredth."""
    passes = 30e9 * (0.2 if shape.gradient_checkpointing else 1) * (0.5 if shape.precision == "bf16" else 1)
    if shape.lora_rank is None:
        return replace(STEP, peak=int(64e9 + passes * shape.rows))
    parts = replace(STEP, trained=4 * 10**7, weights=8 * 10**9, gradient=16 * 10**7, moments=32 * 10**7)
    return replace(parts, peak=int(8.48e9 + passes * shape.rows))


def planned(settings: dict[str, object], cards: Mapping[str, float], owned: Owned = ONE) -> Plan:
    config = config_of(settings)
    capacity = Capacity({name: CardMemory(name, size * GIB) for name, size in cards.items()})
    return plan_of(config, Model(QWEN, 2048), owned, capacity, count)


def config_of(settings: dict[str, object]) -> Config:
    usual = {"advisor.engine": "vllm", "advisor.model": str(QWEN), "learner.micro_tokens": 2048}
    return resolve(None, {**usual, **settings}, environment={})
