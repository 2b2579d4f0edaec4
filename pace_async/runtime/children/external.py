"""Checks engines given by URL, which already run, before a run begins."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.vllm_found import Build, find_vllm
from pace_async.advise.engines.vllm_versions import why_not
from pace_async.advise.text_part import has_more_than_text
from pace_async.config import Config
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.installing import install_line
from pace_async.publish.base import PushFailed
from pace_async.publish.phases import Phases
from pace_async.registry.engines import SERVERS, engine_of
from pace_async.registry.objectives import trains
from pace_async.registry.transports import TRANSPORTS
from pace_async.runtime.children.advisor_folder import advisor_folder

SAMPLE = "Raise the number of restarts from 16 to 64; keep naïve tie-breaking (it's cheap)."
ANSWER_S = 20.0


def urls_of(engine: str) -> tuple[str, ...]:
    """The servers that --engine names, without a slash at their end. Raises UsageError."""
    urls = tuple(url.strip().rstrip("/") for url in engine.split(","))
    for url in urls:
        if not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#@\s]*)?", url):
            raise UsageError(f"--engine {engine}: {url or 'an empty entry'} is not of the form http://HOST:PORT.")
    if len(set(urls)) < len(urls):
        raise UsageError(f"--engine {engine}: one server is named twice.")
    return urls


async def refuse_unless_fit(config: Config, *, all_up: bool) -> None:
    """Raises UsageError for a server that takes no pushed weights or serves another model, with `all_up` for one that
    does not answer, and for a place of versions that this installation cannot reach. Engines without a URL are not
    checked."""
    if engine_of(config.advisor.engine) is not SERVERS:
        return
    _refuse_unless_readable(config.advisor.fetch_from)
    _refuse_more_than_text(config)
    expected = await anyio.to_thread.run_sync(_tokens, advisor_folder(config.advisor.model))
    for url in urls_of(config.advisor.engine):
        async with HttpEngine(url, timeout_s=min(ANSWER_S, config.advisor.timeout_s)) as engine:
            try:
                version = await engine.vllm_version()
                if version is not None:
                    _refuse_unless_supported(url, version, config.advisor.transport)
                await engine.label()
                tokens = await engine.tokens(SAMPLE)
            except InfrastructureFault as fault:
                detail = " ".join(fault.detail.split())[:200]
                if fault.kind in ("engine_unreachable", "engine_timeout"):
                    if all_up:
                        raise UsageError(f"--engine {url}: nothing answers there ({detail}).") from None
                    continue
                raise UsageError(
                    f"--engine {url} is not a server that weights can be published to ({detail}); docs/engines.md "
                    "says how to start one."
                ) from None
        if TRANSPORTS[config.advisor.transport].gpu_to_gpu:
            await _refuse_unless_on_gpu(f"advisor.transport {config.advisor.transport}", url)
        if expected is not None and tokens != expected:
            raise UsageError(
                f"--engine {url} serves another model than --advisor {config.advisor.model}: its tokenizer differs."
            )


def _refuse_more_than_text(config: Config) -> None:
    model = config.advisor.model
    if trains(config.learner.objective) and has_more_than_text(advisor_folder(model)):
        raise UsageError(
            f"--advisor {model} has more than a text part, and versions hold the text part alone: serve the folder "
            f"that `python -m pace_async.advise.text_part {model} FOLDER` writes, and name it by --advisor."
        )


def _refuse_unless_readable(fetch_from: str | None) -> None:
    if fetch_from is not None and fetch_from.startswith("s3:") and find_spec("s3fs") is None:
        raise UsageError(
            f"advisor.fetch_from {fetch_from} needs a package, here and at each server: {install_line('s3')}."
        )


def _refuse_unless_supported(url: str, version: str, transport: str) -> None:
    own = find_vllm() if TRANSPORTS[transport].gpu_to_gpu else None
    reason = why_not(version, own.version if isinstance(own, Build) else None)
    if reason is not None:
        raise UsageError(f"--engine {url} {reason}.")


async def _refuse_unless_on_gpu(setting: str, url: str) -> None:
    phases = Phases(url, phase_s=ANSWER_S)
    try:
        devices: list[Any] = json.loads(await phases.ask("collective_rpc", {"method": "serves_on"}))["results"]
    except (PushFailed, ValueError, KeyError, TypeError):
        raise UsageError(
            f"{setting}: --engine {url} is not a vLLM with this package's plugin; docs/engines.md says how to start "
            "one."
        ) from None
    finally:
        await phases.aclose()
    if set(devices) != {"cuda"}:
        names = ", ".join(map(str, devices))
        raise UsageError(f"{setting} needs a server on GPUs, and --engine {url} serves on: {names}.")


def _tokens(model: Path) -> tuple[int, ...] | None:
    """The sample's tokens by the model's own tokenizer, None if it has no tokenizer.json."""
    file = model / "tokenizer.json"
    if not file.is_file():
        return None
    from tokenizers import Tokenizer

    tokenizer = cast("Any", Tokenizer).from_file(str(file))
    return tuple(tokenizer.encode(SAMPLE, add_special_tokens=False).ids)
