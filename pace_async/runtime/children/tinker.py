"""Puts the Tinker API behind the seams: the trainer, the engine of its versions, and what they cost.

Invariant: a version is served by the snapshot that its folder names, and by no other. A snapshot never changes, so the
name is the proof: there is no receipt of tensors, and a version's row says `proof: named`.
"""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from pace_async.advise.advisor import ServedAdvisor
from pace_async.advise.base import Advisor, Engine, Prompt, PromptTooLong
from pace_async.advise.chat import TextFormat, chat_format_of, template_of
from pace_async.advise.client import HttpEngine, special_token_ids
from pace_async.advise.engines.snapshots import ServedSnapshot, SnapshotTransport
from pace_async.config import Config
from pace_async.errors import InfrastructureFault, PaceBug, UsageError
from pace_async.events import AdvisorCall
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.tinker_trainer import SavedVersion, TinkerTrainer
from pace_async.providers.base import CallLedger
from pace_async.providers.tinker.paid import TokenMeter, TokenPrices
from pace_async.providers.tinker.sdk import open_service, refuse_unless_ready
from pace_async.providers.tinker.service import TrainingService
from pace_async.publish.base import PushFailed, Receipt
from pace_async.runtime.children.advisor_choice import context_of
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.children.engines import RunningEngine
from pace_async.runtime.children.replica import Probing
from pace_async.runtime.children.training import Training
from pace_async.runtime.run_paths import RunPaths
from pace_async.state.run_state import RunState
from pace_async.tokenizer_file import TokenizerFile, end_tokens

UNKNOWN_CONTEXT = 32_768
"""Tokens of question and answer, where the model's configuration does not say."""


def base_model(config: Config) -> str:
    """The advisor's name at the service."""
    return config.tinker.base_model or config.advisor.model.partition("@")[0]


@asynccontextmanager
async def training(
    config: Config, paths: RunPaths, folder: Path, groups: Sequence[Path], ledger: CallLedger
) -> AsyncGenerator[Training]:
    """The trainer at the service. Raises NotHere, GaveUp if the service is not there."""
    model = base_model(config)
    meter = TokenMeter(ledger, f"tinker:{model}", TokenPrices.of(config.tinker))
    async with open_service(config.tinker, model, config.learner.step_timeout_s) as service:
        settings, versions = TrainerConfig.of(config), len(groups)
        trainer = TinkerTrainer(service, paths.learner, settings, meter, versions=versions)
        yield Training(trainer, service=service, meter=meter)


@dataclass(frozen=True, slots=True)
class _Snapshots:
    """The `Publisher` of snapshots, and a `SupervisedEngine` that is never lost: each request notices a service that is
    not there."""

    service: TrainingService
    transport: SnapshotTransport
    log: str = "the service is not there"

    async def publish(self, version: int, weights: Path) -> Receipt:
        began = time.perf_counter()
        saved = await anyio.to_thread.run_sync(SavedVersion.read, weights)
        if saved is None or saved.version != version:
            raise PushFailed("incomplete_checkpoint", f"{weights} does not name version {version}", began=False)
        try:
            sampler = await self.service.sampler(saved.saved.snapshot)
        except InfrastructureFault as fault:
            raise PushFailed(fault.kind, fault.detail, began=False) from None
        self.transport.served = ServedSnapshot(version, sampler)
        return Receipt(version, {"proof": "named", "snapshot": saved.saved.snapshot}, time.perf_counter() - began, 0.0)

    async def wait_lost(self, hung_s: float) -> InfrastructureFault:
        await anyio.sleep_forever()
        raise AssertionError

    async def restart(self) -> None:
        raise PaceBug("a service is not restarted by a run")


@asynccontextmanager
async def engine(
    config: Config, paths: RunPaths, folder: Path, state: RunState, probing: Probing, training: Training | None
) -> AsyncGenerator[RunningEngine]:
    """The sampling clients of the service, one for each version."""
    if training is None or training.service is None:
        raise UsageError("--engine tinker serves what learner.trainer tinker trains: leave it out.")
    transport = SnapshotTransport(_tokenizer(config, folder), end_tokens(folder), _context(config, folder))
    publisher = _Snapshots(training.service, transport)
    await publisher.publish(state.learner, await training.trainer.ready())
    text = TextFormat(special_token_ids(folder), chat_format_of(config.advisor, folder))
    client = HttpEngine("http://tinker", text=text, timeout_s=config.advisor.timeout_s, transport=transport)
    async with client:
        yield RunningEngine(client, publisher, publisher)


class PaidAdvisor:
    """Implements `advise.base.Advisor`. Asks `advisor`, whose engine is `engine`, pays by `meter`, and enters each call
    in the ledger. A question and its answer have at most `context` tokens together. A call that is made again is paid
    again."""

    def __init__(self, advisor: Advisor, engine: Engine, meter: TokenMeter, context: int) -> None:
        self._advisor, self._engine, self._meter, self._context = advisor, engine, meter, context

    async def ask(self, prompt: Prompt) -> tuple[AdvisorCall, Literal["stop", "length"]]:
        prompt_ids = await self._engine.encode(prompt.whole)
        if len(prompt_ids) >= self._context:  # a prompt that is not sent costs nothing
            raise PromptTooLong(len(prompt_ids), self._context)
        if prompt.max_prompt_tokens is not None and len(prompt_ids) > prompt.max_prompt_tokens:
            raise PromptTooLong(len(prompt_ids), prompt.max_prompt_tokens)
        async with self._meter.sampling(prompt.lease, len(prompt_ids), prompt.max_tokens) as had:
            call, finish = await self._advisor.ask(prompt)
            had.first, had.second = len(call.prompt_ids), len(call.completion_ids)
        return call, finish


def paid_advisor(config: Config, folder: Path, served: Engine, meter: TokenMeter) -> Advisor:
    """The served advisor, each of whose calls is in the ledger."""
    advisor = ServedAdvisor(served, config.advisor.end_of_thinking, time.perf_counter)
    return PaidAdvisor(advisor, served, meter, _context(config, folder))


def refuse_unless_trained(config: Config) -> None:
    """Raises NotHere without the package or the key, UsageError for an advisor without a tokenizer of its own or for a
    budget without prices. Asks nobody."""
    refuse_unless_ready(config.tinker)
    _tokenizer(config, advisor_folder(config.advisor.model))
    if config.stop.budget is not None and config.tinker.prices[0] is None and config.tinker.url is None:
        raise UsageError(
            "--budget needs the service's prices: give tinker.price_per_million_prompt, "
            "tinker.price_per_million_sampled and tinker.price_per_million_trained."
        )


def _context(config: Config, folder: Path) -> int:
    return context_of(config.advisor, folder) or UNKNOWN_CONTEXT


def _tokenizer(config: Config, folder: Path) -> TokenizerFile:
    try:
        return TokenizerFile(folder, template_of(folder))
    except ValueError as error:
        raise UsageError(f"--advisor {config.advisor.model}: {error}.") from None
