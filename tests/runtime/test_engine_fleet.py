"""Names of weights, the probe's figure, and servers by URL that a run refuses before it begins."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from pace_async.advise.base import Voided
from pace_async.advise.engines.vllm_found import Build
from pace_async.config import SearchConfig
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.events import TokenSpan
from pace_async.publish.probe import k3_of
from pace_async.runtime.children import external
from pace_async.runtime.children.engines import serving
from pace_async.runtime.children.external import refuse_unless_fit, urls_of
from pace_async.runtime.children.replica import Probing, PushLabels
from pace_async.runtime.run_paths import RunPaths
from pace_async.search.state import rules_of
from pace_async.state.run_state import RunState, Terms
from tests.doubles.engine_servers import EngineServer, own_tokens, server
from tests.support.engine_models import plain_logprobs, save_tiny_model
from tests.support.fitness import UP
from tests.support.simulated_runs import settings
from tests.support.tensor_files import save_file


async def test_a_name_means_its_version_once_its_push_is_proven() -> None:
    labels = PushLabels()
    name = labels.begin(7)
    found: list[int] = []

    async def ask() -> None:
        found.append(await labels.version(name))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert found == []
            labels.settle(True)
    assert found == [7]


async def test_weights_named_by_a_failed_push_stay_void_after_the_next_push() -> None:
    labels = PushLabels()
    failed = labels.begin(7)
    labels.settle(False)
    labels.settle(False)  # a push that failed before it had a name
    proven = labels.begin(7)
    labels.settle(True)
    assert failed != proven
    assert await labels.version(proven) == 7
    with pytest.raises(Voided):
        await labels.version(failed)


async def test_weight_names_of_other_runs_mean_no_version() -> None:
    ours, others = PushLabels(), PushLabels()
    name = others.begin(3)
    others.settle(True)
    for label in (name, "3", "default", "unknown", ""):
        with pytest.raises(InfrastructureFault, match="bad_spans"):
            await ours.version(label)
    managed = PushLabels(numbered=True)
    assert await managed.version("3") == 3
    for label in (name, "unknown"):
        with pytest.raises(InfrastructureFault, match="bad_spans"):
            await managed.version(label)


async def test_the_oldest_between_two_names_is_void_where_a_push_between_them_was() -> None:
    labels = PushLabels()
    names: list[str] = []
    for version, proven in ((4, True), (5, True), (6, False), (6, True), (7, True)):
        names.append(labels.begin(version))
        labels.settle(proven)
    assert await labels.oldest(names[0], names[1]) == 4
    assert await labels.oldest(names[3], names[4]) == 6
    assert await labels.oldest(names[4], names[4]) == 7
    with pytest.raises(Voided):
        await labels.oldest(names[1], names[3])


LOGPROBS = st.lists(st.floats(-30, 0), min_size=1, max_size=40)


@hypothesis.given(LOGPROBS)
def test_k3_is_zero_for_equal_figures_and_above_it_for_others(served: list[float]) -> None:
    assert k3_of(served, served) == 0
    moved = [value + 0.1 * (1 + at % 3) for at, value in enumerate(served)]
    assert k3_of(served, moved) > 0.004
    assert k3_of(moved, served) > 0.004


def test_k3_of_numbers_that_overflow_or_are_not_finite_is_above_every_limit() -> None:
    assert k3_of([-2000.0], [0.0]) == math.inf
    assert not k3_of([-1.0, -1.0], [-1.0, math.nan]) <= 1e9
    assert k3_of([-1.0], [-math.inf]) == math.inf
    with pytest.raises(ValueError, match="cannot be compared"):
        k3_of([-1.0], [-1.0, -1.0])
    with pytest.raises(ValueError, match="cannot be compared"):
        k3_of([], [])


def test_urls_lose_their_slash_and_other_texts_are_refused() -> None:
    assert urls_of("http://a:1/, https://b/engine/") == ("http://a:1", "https://b/engine")
    for wrong in ("http://a:1,", "http://", "http://a:1,b:2", "http://user:word@a", "http://a?b=c", "ftp://a"):
        with pytest.raises(UsageError, match="--engine"):
            urls_of(wrong)
    with pytest.raises(UsageError, match="twice"):
        urls_of("http://a:1,http://a:1/")


def tokens(*ids: int) -> Callable[[dict[str, object]], object]:
    return lambda body: {"count": len(ids), "max_model_len": 2048, "tokens": ids}


WRONG_SERVERS: list[tuple[dict[str, Callable[[dict[str, object]], object]], str]] = [
    ({}, r"is not a server that weights can be published to \(/weight_info: 404 <html> Not"),
    ({"/weight_info": lambda body: ["?"]}, "is not a server that weights can be published to"),
    ({"/weight_info": lambda body: {"weight_version": "none"}, "/tokenize": tokens(1, 2)}, "another model"),
]


@pytest.mark.parametrize(
    ("answers", "sentence"),
    WRONG_SERVERS,
    ids=["an ordinary web server", "another protocol", "another tokenizer"],
)
async def test_a_wrong_server_is_refused_in_one_sentence(
    answers: dict[str, Callable[[dict[str, object]], object]], sentence: str
) -> None:
    listening = server(answers)
    try:
        config = settings(advisor__engine=listening.url)
        for all_up in (True, False):
            with pytest.raises(UsageError, match=sentence) as caught:
                await refuse_unless_fit(config, all_up=all_up)
            assert listening.url in str(caught.value)
            assert "\n" not in str(caught.value)
    finally:
        listening.kill()


@pytest.mark.parametrize(
    ("version", "transport", "sentence"),
    [
        ("0.31.2", "file", "is vLLM 0.31.2, and a run needs vLLM 0.32 or a later one."),
        ("0.32.0", "file", None),
        ("0.33.0", "fetch", None),
        ("0.34.1rc1", "file", None),
        ("0.1.dev14051+g9ad7f89", "file", None),
        (
            "0.33.0",
            "nccl",
            "is vLLM 0.33.0 and the learner's is 0.32.1, and both ends of a transfer must be of one version.",
        ),
    ],
)
async def test_the_version_of_vllm_is_what_the_server_reports(
    monkeypatch: pytest.MonkeyPatch, version: str, transport: str, sentence: str | None
) -> None:
    monkeypatch.setattr(external, "find_vllm", lambda: Build("vllm", "0.32.1"))
    listening = server(
        {
            "/version": lambda body: {"version": version},
            "/weight_info": lambda body: {"weight_version": "none"},
            "/tokenize": own_tokens,
        }
    )
    config = settings(advisor__engine=listening.url, advisor__transport=transport)
    try:
        if sentence is None:
            await refuse_unless_fit(config, all_up=True)
            return
        with pytest.raises(UsageError) as caught:
            await refuse_unless_fit(config, all_up=True)
        assert str(caught.value) == f"--engine {listening.url} {sentence}"
    finally:
        listening.kill()


async def test_a_server_that_is_down_is_refused_at_the_start_and_waited_for_on_resume(tmp_path: Path) -> None:
    listening = server({"/weight_info": lambda body: {"weight_version": "none"}, "/tokenize": own_tokens})
    try:
        await refuse_unless_fit(settings(advisor__engine=listening.url), all_up=True)
        both = settings(advisor__engine=f"{listening.url},http://127.0.0.1:9")
        with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:9: nothing answers there"):
            await refuse_unless_fit(both, all_up=True)
        await refuse_unless_fit(both, all_up=False)
    finally:
        listening.kill()


async def test_a_bucket_is_refused_at_the_start_where_its_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"advisor__engine": "http://127.0.0.1:9", "advisor__transport": "fetch"}
    config = settings(**there, advisor__fetch_from="s3://bucket/folder")
    monkeypatch.setattr(external, "find_spec", {"s3fs": None}.get)
    with pytest.raises(UsageError, match=r"s3://bucket/folder needs a package.*pip install .*\[s3\]'"):
        await refuse_unless_fit(config, all_up=False)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[EngineServer]:
    """A server that was started with other weights."""
    engine = EngineServer(save_tiny_model(tmp_path / "strange", seed=99))
    yield engine
    engine.kill()


def state() -> RunState:
    return RunState(Terms(4, 2, rules_of(SearchConfig(), UP)))


async def test_a_server_by_url_serves_the_runs_own_weights_from_the_first_token(
    stranger: EngineServer, tmp_path: Path
) -> None:
    given = save_tiny_model(tmp_path / "given", seed=1)
    config = settings(advisor__engine=stranger.url, advisor__model=str(given))
    await refuse_unless_fit(config, all_up=True)
    async with serving(config, RunPaths(tmp_path / "run"), given, state(), Probing()) as served:
        answer = await served.client.generate((1, 2, 3), max_tokens=6, temperature=1.0, seed=0)
        assert answer.spans == (TokenSpan(0, 0, 6),)
        assert answer.logprobs == pytest.approx(plain_logprobs(given, (1, 2, 3), answer.token_ids, 1.0), abs=1e-4)
        receipt = await served.publisher.publish(1, save_tiny_model(tmp_path / "next", seed=2))
        assert receipt.k3 is None, "there is no learner to compare with"
        answer = await served.client.generate((1, 2, 3), max_tokens=6, temperature=1.0, seed=0)
        assert answer.spans == (TokenSpan(1, 0, 6),)


@pytest.mark.long
@pytest.mark.nightly
async def test_a_server_of_another_architecture_with_the_same_tokenizer_is_refused(
    stranger: EngineServer, tmp_path: Path
) -> None:
    given = save_tiny_model(tmp_path / "given", seed=1, tied=True)
    save_file({"model.embed_tokens.weight": torch.ones(300, 32)}, given / "model.safetensors")
    config = settings(advisor__engine=stranger.url, advisor__model=str(given), faults__backoff_s=0.01)
    with pytest.raises(UsageError, match=r"does not take the weights .*shape"):
        async with serving(config, RunPaths(tmp_path / "run"), given, state(), Probing()):
            pass
