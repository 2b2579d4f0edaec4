"""The engine and the learner of a config, side by side: pushes, k3 and tokens a second."""

import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import anyio

from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_managed import managed_vllm
from pace_async.advise.engines.wire import SamplingParams
from pace_async.config import Config
from pace_async.learn.client import ChildLimits, ProcessLearner
from pace_async.learn.settings import TrainerConfig
from pace_async.publish import probe
from pace_async.publish.broadcast import Broadcast
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import write_group
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.children.cards import Cards
from pace_async.runtime.children.engines import vllm_build, vllm_settings
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from scripts.first_hour.table import NO_CARD, NOT_CARRIED, ONE_CARD, TWO_CARDS, Row, rows_of

TOKENS = 256
"""Tokens of each answer whose speed is measured."""
PHASE_S = 600.0
"""Deadline of each phase of a push."""
LIMITS = ChildLimits(step_s=1800.0, start_s=1800.0)


async def served(config: Config, cards: Cards, samples: int) -> list[Row]:
    """Rows of `push`, `probe` and `serve`. `samples` answers are compared."""
    given = advisor_folder(config.advisor.model)
    with tempfile.TemporaryDirectory(prefix="pace-first-hour-") as name:
        async with AsyncExitStack() as stack:
            folder = Path(name)
            limits = ChildLimits(LIMITS.step_s, LIMITS.start_s, cards=cards.learner or (None,))
            settings = TrainerConfig.of(config)
            learner = await stack.enter_async_context(
                ProcessLearner(given, folder / "learner", settings, limits=limits)
            )
            url = await _engine(stack, config, given, folder, cards)
            delivery = Delivery(numbered=True, adapters=config.learner.lora_rank is not None, phase_s=PHASE_S)
            found = await stack.enter_async_context(Replica(url, probing=Probing(), timeout_s=900.0, delivery=delivery))
            if config.advisor.engine == "vllm":  # the embedded engine starts with version 0
                await found.publish(0, folder / "model")
            k3 = await _k3(found, learner, samples, config.advisor.temperature)
            speed = await _speed(found, config.search.threads)
            version = await _trained(learner, folder)
            by_file = await found.publish(1, version)
            by_nccl = await _by_nccl(url, learner, version, config, cards)
            by_ipc = await _by_ipc(url, learner, version, config, cards)
    return [
        *rows_of("push", f"{by_file.seconds:.2f} s, {by_file.paused_seconds:.2f} paused", by_nccl, by_ipc),
        *rows_of("probe", f"{statistics.median(k3):.2g}, {max(k3):.2g} of {len(k3)} samples"),
        *rows_of("serve", f"{speed:,.0f} at {config.search.threads} requests"),
    ]


async def _engine(stack: AsyncExitStack, config: Config, given: Path, folder: Path, cards: Cards) -> str:
    """Start the config's engine. Returns its URL."""
    chosen, log = config.advisor, folder / "engine.log"
    if chosen.engine != "vllm":
        engine = EngineHandle(log=log, threads=chosen.threads, gpu=next(iter(cards.engine), None))
        return (await stack.enter_async_context(managed_engine(engine, given))).url
    settings = vllm_settings(config, given, cards.engine)
    model = serve_from(given, folder / "model")
    return (await stack.enter_async_context(managed_vllm(vllm_build(), model, settings, log=log, start_s=1800.0))).url


async def _k3(replica: Replica, learner: ProcessLearner, samples: int, temperature: float) -> list[float]:
    found: list[float] = []
    for seed in range(samples):
        prompt = await replica.client.encode(probe.TEXTS[seed % len(probe.TEXTS)])
        answer = await replica.client.sample(
            prompt, SamplingParams(max_tokens=probe.TOKENS, temperature=temperature, seed=seed, ignore_eos=True)
        )
        own = await learner.logprobs(0, prompt, answer.token_ids)
        if own is not None:
            found.append(probe.k3_of(answer.logprobs, own))
    return found


async def _speed(replica: Replica, requests: int) -> float:
    """Tokens a second, of as many requests at once as a run has."""
    prompt, done = await replica.client.encode(probe.TEXT), list[int]()

    async def one(seed: int) -> None:
        drawn = SamplingParams(max_tokens=TOKENS, temperature=1.0, seed=seed, ignore_eos=True)
        answer = await replica.client.sample(prompt, drawn)
        done.append(len(answer.token_ids))

    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for seed in range(requests):
            tasks.start_soon(one, seed)
    return sum(done) / (time.perf_counter() - began)


async def _trained(learner: ProcessLearner, folder: Path) -> Path:
    """Version 1, from a small group. Returns its directory."""
    await learner.ready()
    prompt, answer = tuple(range(5, 13)), tuple(range(13, 21))
    scores = await learner.logprobs(0, prompt, answer)
    call = TrainedCall(prompt, answer, scores or (-9.0,) * len(answer), (0,) * len(answer))
    rollouts = tuple(TrainedRollout(at + 1, 1.0 - at % 2 * 2.0, 0.0, (_shifted(call, at),)) for at in range(4))
    path = folder / "000001.safetensors"
    write_group(path, Group(1, 0, "grpo", 0.0, 0, rollouts))
    step = await learner.train(path)
    if step.weights is None:
        raise ValueError(f"no version was made: {step.reason}")
    return step.weights


def _shifted(call: TrainedCall, by: int) -> TrainedCall:
    """The call with another last token, so that no two are equal."""
    ids: Sequence[int] = call.completion_ids
    return TrainedCall(call.prompt_ids, (*ids[:-1], ids[-1] + by), call.logprobs, call.versions)


async def _by_nccl(url: str, learner: ProcessLearner, version: Path, config: Config, cards: Cards) -> str:
    if not cards.engine or not cards.learner:
        return NO_CARD
    if set(cards.engine) & set(cards.learner):
        return ONE_CARD
    if not _whole_to_vllm(config):
        return NOT_CARRIED
    return await _pushed(url, version, Delivery(numbered=True, transport="nccl", sender=Broadcast(learner)))


async def _by_ipc(url: str, learner: ProcessLearner, version: Path, config: Config, cards: Cards) -> str:
    if not cards.engine or not cards.learner:
        return NO_CARD
    if cards.engine != cards.learner or len(cards.engine) > 1:
        return TWO_CARDS
    if not _whole_to_vllm(config):
        return NOT_CARRIED
    return await _pushed(url, version, Delivery(numbered=True, transport="ipc", sharer=learner))


def _whole_to_vllm(config: Config) -> bool:
    return config.learner.lora_rank is None and config.advisor.engine == "vllm"


async def _pushed(url: str, version: Path, delivery: Delivery) -> str:
    delivery = replace(delivery, phase_s=PHASE_S)
    async with Replica(url, probing=Probing(), timeout_s=900.0, delivery=delivery) as replica:
        receipt = await replica.publish(1, version)
    return f"{receipt.seconds:.2f} s, {receipt.paused_seconds:.2f} paused"
