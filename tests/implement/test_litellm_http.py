"""litellm over real HTTP against a local server that misbehaves in every known way: three outcomes, never confused."""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from pace_async.errors import CandidateFault, GaveUp, InfrastructureFault
from pace_async.implement.base import Experiment
from pace_async.implement.shares import parse_shares
from pace_async.providers.failures import CallFailed
from pace_async.providers.pool import draw
from pace_async.search.state import Member
from pace_async.task import split_block
from research.rivals.local_implementer_server import LocalProvider, serving
from tests.doubles.implementers import PlainLedger
from tests.support.implementing import CANARY, PARENT, TASK, configured, implement, implementing
from tests.support.simulated_runs import settings


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


@pytest.fixture
async def nothing_left() -> AsyncGenerator[None]:
    yield
    assert [task for task in asyncio.all_tasks() if "TestRunner" not in repr(task.get_coro())] == []


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    yield LocalProvider(TASK)


def by_turns(*behaviours: str) -> Callable[[int, str], str]:
    """Call n gets behaviour n, and all later calls the last one."""
    return lambda number, _question: behaviours[min(number, len(behaviours)) - 1]


def closed_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


async def test_an_answer_becomes_a_program_and_its_cost_is_the_server_s_bill(
    provider: LocalProvider, nothing_left: None
) -> None:
    with serving(provider) as url:
        async with implementing(configured(url)) as (implementer, ledger):
            first = await implement(implementer, 1)
            second = await implement(implementer, 2)
    assert split_block(first.program)[1] == split_block(TASK.program)[1].replace('layout = "rings"', 'layout = "hex"')
    assert second.program == first.program
    assert ledger.outcomes == ["ok", "ok"]
    assert sum(call.cost_usd for call in ledger.calls) == pytest.approx(provider.charged_usd, abs=1e-12)
    assert all(call.cost_usd <= ledger.reserved[call.reservation or 0] for call in ledger.calls)
    assert [body["model"] for body in provider.bodies] == ["local", "local"]
    assert CANARY not in str(provider.bodies)


@pytest.mark.parametrize(("options", "told"), [({}, False), ({"success_callback": []}, True)])
async def test_litellm_prepares_data_for_callbacks_only_if_there_may_be_some(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], told: bool
) -> None:
    models: list[str] = []

    async def tell(logging: Any, *_: object, **__: object) -> None:
        models.append(logging.model)

    with serving(provider) as url:
        async with implementing(configured(url, implementer__options=options)) as (implementer, ledger):
            from litellm.litellm_core_utils.litellm_logging import Logging  # loaded by now, as in a run

            monkeypatch.setattr(Logging, "async_success_handler", tell)
            await implement(implementer)
            await anyio.wait_all_tasks_blocked()
    assert bool(models) is told
    assert ledger.calls[0].cost_usd > 0


@pytest.mark.fault("Implementer", "empty answer", only="empty")
@pytest.mark.fault("Implementer", "refusal", only="refusal")
@pytest.mark.fault("Implementer", "stopped for length", only="length")
@pytest.mark.fault("Implementer", "no code", only="no_code")
@pytest.mark.fault("Implementer", "two code blocks", only="two_blocks")
@pytest.mark.fault("Implementer", "another language", only="wrong_language")
@pytest.mark.fault("Implementer", "an edit that matches nothing", only="search_nowhere")
@pytest.mark.fault("Implementer", "an edit that matches twice", only="search_twice")
@pytest.mark.fault("Implementer", "an edit outside the block", only="outside")
@pytest.mark.fault("Implementer", "nothing changed", only="unchanged")
@pytest.mark.fault("Implementer", "syntax error", only="syntax_error")
@pytest.mark.fault("Implementer", "two megabytes", only="huge")
@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        ("empty", "empty_answer"),
        ("refusal", "refusal"),
        ("length", "length"),
        ("no_code", "no_code_block"),
        ("two_blocks", "several_code_blocks"),
        ("wrong_language", "wrong_language"),
        ("search_nowhere", "search_not_found"),
        ("search_twice", "search_ambiguous"),
        ("mixed", "mixed_answer"),
        ("outside", "edit_leaves_block"),
        ("unchanged", "unchanged"),
        ("syntax_error", "syntax_error"),
        ("markers", "markers_in_block"),
        ("huge", "answer_too_long"),
    ],
)
async def test_a_bad_answer_is_the_candidate_s_fault_is_paid_for_and_is_not_tried_again(
    provider: LocalProvider, nothing_left: None, behaviour: str, kind: str
) -> None:
    provider.plan = by_turns(behaviour)
    before, block, after = split_block(TASK.program)
    parent = Member(0, f"{before}{block}spare = 0\nspare = 0\n{after}", 0.96)
    with serving(provider) as url:
        async with implementing(configured(url)) as (implementer, ledger):
            with pytest.raises(CandidateFault) as caught:
                await implementer.implement(TASK, parent, Experiment(1, "", "Set layout to hex."))
    assert caught.value.kind == kind
    assert ledger.outcomes == [kind]
    assert provider.calls == 1
    assert ledger.calls[0].cost_usd == pytest.approx(provider.charged_usd, abs=1e-12)
    assert ledger.calls[0].prompt_tokens > 0
    assert CANARY not in f"{caught.value} {ledger}"


@pytest.mark.fault("Implementer", "a key is in no row, log or error")
async def test_an_answer_that_holds_a_key_is_paid_for_and_kept_nowhere_and_is_no_candidates_fault(
    provider: LocalProvider, nothing_left: None
) -> None:
    provider.plan = by_turns("echo_key_in_answer", "append")
    with serving(provider) as url:
        async with implementing(configured(url)) as (implementer, ledger):
            with pytest.raises(InfrastructureFault) as caught:
                await implement(implementer, 1)
            await implement(implementer, 2)
    assert caught.value.kind == "secret_in_answer"
    assert not isinstance(caught.value, CallFailed)
    assert ledger.outcomes == ["secret_in_answer", "ok"]
    assert ledger.faults == []
    assert sum(call.cost_usd for call in ledger.calls) == pytest.approx(provider.charged_usd, abs=1e-12)
    assert CANARY not in f"{caught.value} {ledger}"


@pytest.mark.fault("Implementer", "429 without Retry-After", only="429")
@pytest.mark.fault("Implementer", "server errors, then well", only="500")
@pytest.mark.fault("Implementer", "no answer", only="hang")
@pytest.mark.fault("Implementer", "cut answer", only="cut")
@pytest.mark.parametrize(
    ("behaviour", "kind", "known"),
    [
        ("429", "rate_limit", True),
        ("429_wait", "rate_limit", True),
        ("500", "server_error", True),
        ("503", "server_error", True),
        ("echo_key", "server_error", True),
        ("hang", "timeout", False),
        ("cut", "cut_stream", False),
        ("garbage", "invalid_answer", False),
        ("no_choice", "no_choice", False),
    ],
)
async def test_a_service_that_fails_twice_and_recovers_is_only_a_delay(
    provider: LocalProvider, nothing_left: None, behaviour: str, kind: str, known: bool
) -> None:
    provider.plan = by_turns(behaviour, behaviour, "ok")
    with serving(provider) as url:
        timeout = 2.0 if behaviour == "hang" else 20.0
        async with implementing(configured(url, implementer__timeout_s=timeout)) as (implementer, ledger):
            made = await implement(implementer)
    assert 'layout = "hex"' in made.program
    assert ledger.outcomes == [kind, kind, "ok"]
    assert [found for found, _ in ledger.faults] == [kind, kind]
    for call in ledger.calls[:2]:
        assert call.cost_usd == (0.0 if known else ledger.reserved[call.reservation or 0])
    assert CANARY not in str(ledger)


@pytest.mark.fault("Implementer", "429 with Retry-After")
async def test_the_provider_s_own_retry_after_is_respected(provider: LocalProvider, nothing_left: None) -> None:
    provider.plan = by_turns("429_wait", "ok")
    with serving(provider) as url:
        # without Retry-After the first wait would be at least 50 s, which is beyond the deadline
        config = configured(url, faults__backoff_s=100.0, implementer__timeout_s=10.0, implementer__deadline_s=40.0)
        async with implementing(config) as (implementer, ledger):
            with anyio.fail_after(30):
                await implement(implementer)
    assert ledger.outcomes == ["rate_limit", "ok"]


@pytest.mark.fault("Implementer", "429 with Retry-After")
async def test_a_retry_after_beyond_the_deadline_is_not_waited_for_and_the_lease_is_given_up(
    provider: LocalProvider, nothing_left: None
) -> None:
    provider.plan = lambda _number, question: "429_wait" if "poison" in question else "append"
    provider.retry_after_s = 3600.0  # without it the next try would come at once
    asked, answered, loop = anyio.Event(), threading.Event(), asyncio.get_running_loop()

    async def gate() -> None:
        if provider.calls == 1:
            loop.call_soon_threadsafe(asked.set)
            await anyio.to_thread.run_sync(answered.wait, 20.0)

    provider.gate = gate
    with serving(provider) as url:
        config = configured(url, implementer__timeout_s=20.0, implementer__deadline_s=40.0)
        async with implementing(config) as (implementer, ledger), anyio.create_task_group() as group:

            async def another() -> None:
                await asked.wait()
                await implement(implementer, 2)
                answered.set()

            group.start_soon(another)
            with anyio.fail_after(30), pytest.raises(InfrastructureFault) as caught:
                await implement(implementer, 1, "poison")
            assert caught.value.kind == "rate_limit"
    assert ledger.outcomes == ["ok", "rate_limit"]
    assert provider.given == {"append": 1, "429_wait": 1}


@pytest.mark.fault("Implementer", "every provider down, then back")
async def test_when_all_are_down_the_run_waits_and_goes_on_when_one_is_back(
    provider: LocalProvider, nothing_left: None
) -> None:
    provider.plan = by_turns(*["503"] * 12, "append")
    with serving(provider) as url:
        config = configured(url, implementer__timeout_s=30.0, implementer__deadline_s=30.0)
        async with implementing(config) as (implementer, ledger), anyio.create_task_group() as group:
            for lease in range(1, 9):
                group.start_soon(implement, implementer, lease)
    kinds = [kind for kind, _ in ledger.faults]
    assert kinds.count("all_providers_down") == kinds.count("provider_back") == 1
    assert ledger.outcomes.count("ok") == 8
    assert kinds.index("all_providers_down") < kinds.index("provider_back")


@pytest.mark.fault("Implementer", "refused connection", only="refused")
@pytest.mark.parametrize("server", ["refused", "503", "401"])
async def test_when_none_comes_back_the_run_gives_up_after_its_patience(
    provider: LocalProvider, nothing_left: None, server: str
) -> None:
    provider.plan = by_turns("503")
    if server == "401":
        provider.accepts = lambda _key: False
    with serving(provider) as url:
        config = configured(
            closed_port() if server == "refused" else url, implementer__deadline_s=0.1, faults__patience_s=0.3
        )
        async with implementing(config) as (implementer, ledger):
            with anyio.fail_after(30), pytest.raises(GaveUp, match="No implementer answered for 0 s"):
                await implement(implementer)
    expected = {"refused": "refused_connection", "503": "server_error", "401": "bad_key"}[server]
    assert set(ledger.outcomes) == {expected}
    assert sum(call.cost_usd for call in ledger.calls) == 0.0
    assert CANARY not in str(ledger)


async def test_a_lease_that_fails_while_others_are_answered_is_given_up_alone(
    provider: LocalProvider, nothing_left: None
) -> None:
    provider.plan = lambda _number, question: "500" if "poison" in question else "append"
    with serving(provider) as url:
        async with implementing(configured(url, implementer__timeout_s=6.0, implementer__deadline_s=7.0)) as (
            implementer,
            ledger,
        ):
            stop = anyio.Event()

            async def others() -> None:
                lease = 2
                while not stop.is_set():
                    await implement(implementer, lease)
                    lease += 1

            async with anyio.create_task_group() as group:
                group.start_soon(others)
                with pytest.raises(InfrastructureFault) as caught:
                    await implement(implementer, 1, "poison")
                assert not isinstance(caught.value, CallFailed)
                assert caught.value.kind == "server_error"
                stop.set()
    assert not {"provider_down", "all_providers_down"} & {kind for kind, _ in ledger.faults}


async def test_of_two_models_the_one_that_is_up_takes_over(provider: LocalProvider, nothing_left: None) -> None:
    provider.plan = lambda number, _question: "503" if provider.bodies[number - 1]["model"] == "bad" else "append"
    with serving(provider) as url:
        config = configured(url, implementer__model="openai/bad=9,openai/good=1", implementer__deadline_s=20.0)
        async with implementing(config) as (implementer, ledger):
            for lease in range(1, 11):
                await implement(implementer, lease)
    answered = [call.model for call in ledger.calls if call.outcome == "ok"]
    assert answered == ["openai/good"] * 10
    assert "provider_down" in [kind for kind, _ in ledger.faults]


async def test_a_model_that_never_comes_back_does_not_hide_the_one_that_does(
    provider: LocalProvider, nothing_left: None
) -> None:
    """Lease 1 is drawn to `gone`, and no other lease is there to be drawn to `back`."""
    config = settings(implementer__model="openai/gone=9,openai/back=1")
    drawn = draw(parse_shares(config.implementer.model), config.seed, 1)
    assert drawn is not None
    assert drawn.model == "openai/gone"
    fails = iter(range(3))

    def plan(number: int, _question: str) -> str:
        gone = provider.bodies[number - 1]["model"] == "gone"
        return "503" if gone or next(fails, None) is not None else "append"

    provider.plan = plan
    with serving(provider) as url:
        config = configured(url, implementer__model=config.implementer.model, implementer__deadline_s=0.1)
        async with implementing(config) as (implementer, ledger):
            with anyio.fail_after(30):
                await implement(implementer, 1)
    asked = [call.model for call in ledger.calls]
    assert ledger.outcomes[-1] == "ok"
    assert asked[-1] == "openai/back"
    assert asked.count("openai/gone") <= asked.count("openai/back") + 2, "they take turns"


@pytest.mark.parametrize(
    ("options", "timeout_s", "kind"),
    [({"mock_response": "litellm.RateLimitError"}, 60.0, "rate_limit"), ({"mock_timeout": True}, 0.05, "timeout")],
)
async def test_faults_that_litellm_injects_are_distinguished_too(
    nothing_left: None, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], timeout_s: float, kind: str
) -> None:
    config = configured(
        "http://127.0.0.1:9/v1",
        implementer__options=options,
        implementer__timeout_s=timeout_s,
        implementer__deadline_s=100.0,
        faults__patience_s=100.0,
    )
    async with implementing(config) as (implementer, ledger):
        with anyio.CancelScope() as first:

            async def fault(ledger: PlainLedger, kind: str, detail: str, lease: int | None) -> None:
                first.cancel()

            monkeypatch.setattr(PlainLedger, "fault", fault)
            await implement(implementer)
    assert ledger.outcomes == [kind]


async def test_a_call_that_is_cancelled_is_in_the_ledger_at_all_it_may_cost(
    provider: LocalProvider, nothing_left: None
) -> None:
    provider.plan = by_turns("hang")
    asked = anyio.Event()
    loop = asyncio.get_running_loop()

    async def gate() -> None:
        loop.call_soon_threadsafe(asked.set)

    provider.gate = gate
    with serving(provider) as url:
        async with implementing(configured(url)) as (implementer, ledger), anyio.create_task_group() as group:
            group.start_soon(implement, implementer)
            await asked.wait()
            group.cancel_scope.cancel()
    assert ledger.outcomes == ["cancelled"]
    assert ledger.calls[0].cost_usd == ledger.reserved[1] > 0


@pytest.mark.fault("Implementer", "a key is in no row, log or error")
async def test_a_canary_key_is_in_no_log(
    provider: LocalProvider, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    provider.plan = by_turns("echo_key", "429", "cut", "append")
    with serving(provider) as url:
        async with implementing(configured(url)) as (implementer, _):
            await implement(implementer)
    printed = capfd.readouterr()
    assert CANARY not in caplog.text + printed.out + printed.err
    assert PARENT.program == TASK.program
