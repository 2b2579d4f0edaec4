"""vLLM servers of the tiny advisor for tests, as small as they can be, and whether one serves what it should."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.vllm_found import Build, find_vllm
from pace_async.advise.engines.vllm_managed import VllmHandle, VllmSettings
from pace_async.publish.file import FilePublisher
from tests.support.engine_models import plain_logprobs

NOISE = 2e-4
"""Nats between two float32 engines that add in another order."""

SIMULATED_NCCL = ("--worker-extension-cls", "tests.doubles.simulated_nccl_worker.Extension")
"""Arguments of a server whose workers have the stand-in for NCCL. Its PYTHONPATH names the root of this repository."""


def installed_vllm() -> Build:
    """The vLLM that serves here."""
    build = find_vllm()
    assert isinstance(build, Build)
    return build


def small_server(build: Build, **settings: Any) -> VllmSettings:
    """Settings of a server that takes little memory beside others."""
    return VllmSettings(kv_cache_gib=0.25 if build.device == "cpu" else None, gpu_memory=0.3, **settings)


@dataclass
class Server:
    """A server, its client, its publisher, and the model that it was started with."""

    handle: VllmHandle
    engine: HttpEngine
    publisher: FilePublisher
    given: Path

    async def refuse_unless_served(self, version: int, weights: Path, tokens: int = 30) -> None:
        """Fails unless a new answer carries the version and has the log-probabilities of these weights."""
        prompt = await self.engine.encode("The best idea so far")
        answer = await self.engine.generate(prompt, max_tokens=tokens, temperature=1.0, seed=version)
        assert [(span.version, span.start, span.end) for span in answer.spans] == [(version, 0, tokens)]
        assert answer.logprobs == pytest.approx(plain_logprobs(weights, prompt, answer.token_ids, 1.0), abs=NOISE)

    def family(self) -> list[psutil.Process]:
        """Its processes."""
        process = psutil.Process(self.handle.pid)
        return [process, *process.children(recursive=True)]


@dataclass
class SharedServer(Server):
    """A server of several files of tests, with what was seen of it before anything had been pushed to it. It keeps the
    versions that it fetches in `fetched`."""

    version_at_first: int | None
    fault_at_first: str
    fetched: Path
