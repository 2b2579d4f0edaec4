"""A real vLLM server: the numbers of transformers, and versions that are proven and distinguished."""

import json
from pathlib import Path

import anyio
import pytest

from pace_async.advise.base import Completion
from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.advise.engines.vllm_parameter_map import HEAD
from pace_async.population.checking import check_population
from pace_async.population.reading.reader import open_readonly
from pace_async.weights import checkpoint_digests
from tests.support.command_line import PACE
from tests.support.engine_models import plain_logprobs
from tests.support.noisy_versions import version_of
from tests.support.tensor_files import load_file
from tests.support.vllm_servers import NOISE, SharedServer

pytestmark = [pytest.mark.needs_vllm, pytest.mark.timeout(900)]


@pytest.mark.fault("Weights", "an engine restarted with old weights")
async def test_a_server_that_has_just_come_up_has_no_version_and_its_tokens_are_refused(server: SharedServer) -> None:
    assert server.version_at_first is None
    assert server.fault_at_first == "bad_spans"


async def test_the_same_tokens_have_the_same_logprobs_as_in_the_embedded_engine(
    server: SharedServer, versions: list[Path], tmp_path: Path
) -> None:
    await server.publisher.publish(1, versions[1])
    prompts = [await server.engine.encode(text) for text in ("The best idea so far", "1. Try more restarts.")]
    worst = 0.0
    async with (
        managed_engine(EngineHandle(log=tmp_path / "engine.log"), versions[1], 1) as embedded,
        HttpEngine(embedded.url) as other,
    ):
        for prompt in prompts:
            assert await other.encode("The best idea so far") == prompts[0]
            for engine in (server.engine, other):
                for temperature in (1.0, 0.7):
                    answer = await engine.generate(prompt, max_tokens=80, temperature=temperature, seed=11)
                    expected = plain_logprobs(versions[1], prompt, answer.token_ids, temperature)
                    worst = max(worst, *(abs(a - b) for a, b in zip(answer.logprobs, expected, strict=True)))
                    assert await server.engine.decode(answer.token_ids) == await other.decode(answer.token_ids)
    assert worst < NOISE


async def test_a_push_is_proven_by_a_receipt_and_served_from_then_on(
    server: SharedServer, versions: list[Path]
) -> None:
    prompt = await server.engine.encode("The best idea so far")
    for version, weights in ((2, versions[2]), (3, versions[0]), (4, versions[2])):
        receipt = await server.publisher.publish(version, weights)
        assert receipt.digests == checkpoint_digests(weights)
        assert await server.engine.served_version() == version
        answer = await server.engine.generate(prompt, max_tokens=40, temperature=1.0, seed=version)
        assert [(span.version, span.start, span.end) for span in answer.spans] == [(version, 0, 40)]
        expected = plain_logprobs(weights, prompt, answer.token_ids, 1.0)
        assert answer.logprobs == pytest.approx(expected, abs=NOISE)


async def test_a_request_that_spans_a_push_has_both_versions_and_each_part_its_own_logprobs(
    server: SharedServer, versions: list[Path]
) -> None:
    prompt = await server.engine.encode("The best idea so far")
    await server.publisher.publish(10, versions[1])
    answers: list[Completion] = []
    version = 10

    def spanning() -> bool:
        return any(len(answer.spans) >= 2 for answer in answers)

    async def ask(seed: int) -> None:
        while not spanning() and version < 99:
            answers.append(await server.engine.generate(prompt, max_tokens=400, temperature=1.0, seed=seed))

    async with anyio.create_task_group() as tasks:
        for seed in range(3):
            tasks.start_soon(ask, seed)
        while not spanning() and version < 99:
            version += 1
            await server.publisher.publish(version, versions[version % 3])
    assert spanning()
    for answer in answers:
        assert [span.version for span in answer.spans] == sorted({span.version for span in answer.spans})
        by_weights = [plain_logprobs(weights, prompt, answer.token_ids, 1.0) for weights in versions]
        for span in answer.spans:
            part = slice(span.start, span.end)
            assert answer.logprobs[part] == pytest.approx(by_weights[span.version % 3][part], abs=NOISE)


async def test_a_version_with_tied_embeddings_moves_the_head_too(
    server: SharedServer, versions: list[Path], tmp_path: Path
) -> None:
    tied = version_of(tmp_path / "tied", 5, lm_head__weight=None)
    prompt = await server.engine.encode("The best idea so far")
    receipt = await server.publisher.publish(100, tied)
    assert HEAD not in receipt.digests
    answer = await server.engine.generate(prompt, max_tokens=40, temperature=1.0, seed=1)
    head = load_file(tied / "model.safetensors")["model.embed_tokens.weight"]
    whole = version_of(tmp_path / "whole", 5, lm_head__weight=head)
    expected = plain_logprobs(whole, prompt, answer.token_ids, 1.0)
    assert answer.logprobs == pytest.approx(expected, abs=NOISE)


async def test_a_run_by_url_searches_and_learns_on_a_server_that_stands_already(
    server: SharedServer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    asked = ["run", "circle_packing", "--async", "--max-staleness", "2", "--engine", server.handle.url]
    rest = ["--updates", "4", "--seed", "0", "--run-dir", str(run), "--display", "none"]
    done = await anyio.run_process([PACE, *asked, *rest], check=False)
    assert done.returncode == 0, done.stderr.decode()
    with open_readonly(run / "population.db") as reader:
        assert [check for check in check_population(reader) if not check.ok] == []
        versions = reader.sql("select version, receipt, probe_k3, weights from versions where version > 0").rows
    for _, receipt, k3, weights in versions:
        assert json.loads(receipt) == checkpoint_digests(Path(weights))
        assert 0 <= k3 < 5e-3
    assert versions
