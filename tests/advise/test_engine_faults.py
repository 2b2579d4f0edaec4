"""Engines that fail in every way while a run searches and learns on them: it goes on by itself, and every token that
was trained was sampled by the weights that its row names."""

import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from starlette.requests import Request
from starlette.responses import Response

from pace_async.errors import GaveUp
from pace_async.population.reading.audit import audit
from pace_async.population.reading.read_facts import advice_of
from pace_async.runtime.start.supervisor import drive
from tests.doubles.engine_servers import (
    EngineServer,
    Fault,
    Forward,
    How,
    Proxy,
    after_an_answer,
    half_the_names,
    hanging_afterwards,
    loading,
    passed_on,
    refused,
    refused_afterwards,
    rejected_as_paused,
    swallowed,
    without_spans,
)
from tests.support.engine_models import plain_logprobs, save_tiny_model
from tests.support.engine_runs import Searching, searching, write_versions
from tests.support.publishing import PHASES

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

UPDATES = 3


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_versions(tmp_path_factory.mktemp("weights"), UPDATES + 1)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights that are no version of any run."""
    return save_tiny_model(tmp_path_factory.mktemp("strange") / "model", seed=99)


@pytest.fixture(scope="module")
def engines(strange: Path) -> Iterator[tuple[EngineServer, EngineServer]]:
    """Two engines that start with strange weights. The first push of each test has to replace what the test before left
    in them."""
    pair = EngineServer(strange), EngineServer(strange)
    yield pair
    for engine in pair:
        engine.kill()


@pytest.fixture
def proxies(engines: tuple[EngineServer, EngineServer]) -> Iterator[tuple[Proxy, Proxy]]:
    pair = Proxy(engines[0].url), Proxy(engines[1].url)
    yield pair
    for proxy in pair:
        proxy.kill()


async def finish(search: Searching, *, aborted: int | None = 0, spans: bool = True) -> None:
    """Drive the run to its end, and check the invariants after every fault. `aborted` is the number of aborted leases,
    None if it depends on timing. Without `spans` a rollout may count as older than it is."""
    with anyio.fail_after(240):
        assert await drive(search.core, search.fleet) == "done"
    store, versions = search.run.store, search.learner.versions
    unsound = [found for found in await store.read(lambda connection: list(audit(connection))) if not found.ok]
    assert unsound == [], "conservation, staleness, versions, references"
    counts = {row["state"]: row["n"] for row in await search.rows("select state, count(*) n from leases group by 1")}
    assert counts["trained"] == 4 * UPDATES
    assert sum(counts.values()) == (await search.rows("select max(lease) n from leases"))[0]["n"]
    if aborted is not None:
        assert counts.get("aborted", 0) == aborted
    worst = await search.rows("select max(staleness) s, min(staleness) least from leases where state = 'trained'")
    assert 0 <= worst[0]["least"] <= worst[0]["s"] <= 2
    published = await search.rows("select version, state, receipt, probe_k3 from versions where version > 0")
    assert [(row["version"], row["state"]) for row in published] == [(v, "published") for v in range(1, UPDATES + 1)]
    assert all(row["receipt"] for row in published)
    assert all(0 <= row["probe_k3"] < 1e-4 for row in published)
    leases = [row["lease"] for row in await search.rows("select lease from leases where state = 'trained'")]
    advised = await store.read(lambda connection: advice_of(connection, store.run_id, leases))
    assert sorted(advised) == leases
    for advice in advised.values():
        assert len(advice.calls) == 3
        for call in advice.calls:
            for span in call.spans:
                possible = (span.version,) if spans else range(span.version, UPDATES + 1)
                truths = [plain_logprobs(versions[v], call.prompt_ids, call.completion_ids, 1.0) for v in possible]
                for at in range(span.start, span.end):
                    assert min(abs(call.logprobs[at] - truth[at]) for truth in truths) < 1e-3


async def fault_kinds(search: Searching) -> set[str]:
    return {row["kind"] for row in await search.rows("select kind from faults")}


@pytest.mark.parametrize(
    "phase", [pytest.param(phase, marks=[pytest.mark.nightly] if at % 2 else []) for at, phase in enumerate(PHASES)]
)
@pytest.mark.long
async def test_a_push_that_fails_in_any_phase_is_repeated_and_the_run_goes_on(
    proxies: tuple[Proxy, Proxy], versions: list[Path], tmp_path: Path, phase: str
) -> None:
    proxies[0].faults = [Fault(phase, refused, skip=1), Fault(phase, refused_afterwards, skip=1)]
    async with searching(tmp_path, versions, proxies[0].url) as search:
        await finish(search, aborted=None)
        assert "push_refused" in await fault_kinds(search)
    assert proxies[0].hit == [phase] * 2


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("phase", PHASES)
async def test_a_push_that_hangs_in_any_phase_is_repeated_and_the_run_goes_on(
    proxies: tuple[Proxy, Proxy], versions: list[Path], tmp_path: Path, phase: str
) -> None:
    proxies[0].faults = [Fault(phase, hanging_afterwards, skip=1)]
    async with searching(tmp_path, versions, proxies[0].url, phase_s=2.0) as search:
        await finish(search, aborted=None)
        assert "push_timeout" in await fault_kinds(search)
    assert proxies[0].hit == [phase]


async def test_a_server_that_rejects_requests_as_paused_is_asked_again_and_no_lease_is_lost(
    proxies: tuple[Proxy, Proxy], versions: list[Path], tmp_path: Path
) -> None:
    """vLLM 0.33 answers 503 while another client has paused it, where 0.32 keeps requests waiting."""
    proxies[0].faults = [Fault("inference/v1/generate", rejected_as_paused, times=6, skip=3)]
    async with searching(tmp_path, versions, proxies[0].url) as search:
        await finish(search)
        assert "engine_error" in await fault_kinds(search)
    assert proxies[0].hit == ["inference/v1/generate"] * 6


@pytest.mark.parametrize(
    ("path", "how", "kind"),
    [
        ("update_weights", swallowed, "push_refused"),
        ("weight_receipt", half_the_names, "receipt_differs"),
    ],
    ids=["nothing", "half the names"],
)
async def test_a_push_that_silently_loads_too_little_is_refused_by_its_receipt(
    proxies: tuple[Proxy, Proxy], versions: list[Path], tmp_path: Path, path: str, how: How, kind: str
) -> None:
    proxies[0].faults = [Fault(path, how, skip=1, times=2)]
    async with searching(tmp_path, versions, proxies[0].url) as search:
        await finish(search)
        assert kind in await fault_kinds(search)
    assert proxies[0].hit == [path] * 2


@pytest.mark.fault("Weights", "the alarm for weights grossly wrong")
async def test_wrong_weights_under_a_right_receipt_fail_the_probe_and_their_answers_are_void(
    proxies: tuple[Proxy, Proxy], versions: list[Path], strange: Path, tmp_path: Path
) -> None:
    load, attest = loading(strange)
    proxies[0].faults = [
        Fault("update_weights", load, skip=1),
        Fault("weight_receipt", attest, skip=1),
        Fault("tokenize", after_an_answer(proxies[0]), skip=1),  # the probe's: something is sampled before it
    ]
    async with searching(tmp_path, versions, proxies[0].url) as search:
        await finish(search, aborted=None)
        assert "probe_failed" in await fault_kinds(search)
        voided = await search.rows("select lease, state, stage, reason from leases where reason like 'voided%'")
        assert voided
        assert {(row["state"], row["stage"]) for row in voided} == {("aborted", "admitted")}


async def test_an_engine_killed_while_it_generates_comes_back_with_other_weights_and_is_pushed_to_first(
    versions: list[Path], strange: Path, tmp_path: Path
) -> None:
    engine = EngineServer(strange)
    try:
        async with searching(tmp_path, versions, engine.url) as search:

            async def kill_and_start(label: str, after: int) -> None:
                await search.core.wait_until(lambda: search.core.state.evaluated >= after)
                while engine.batcher.open_requests == 0:
                    await anyio.lowlevel.checkpoint()
                await anyio.to_thread.run_sync(engine.kill)
                await anyio.to_thread.run_sync(engine.start, label)

            async def torment() -> None:
                await kill_and_start("none", 2)
                await kill_and_start("1", 6)  # a label that passes for a version

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(torment)
                await finish(search, aborted=None)
            found = await fault_kinds(search)
            assert found & {"engine_unreachable", "push_unreachable"}
    finally:
        engine.kill()


async def test_a_lagging_engine_of_two_gets_no_request_before_its_push(
    proxies: tuple[Proxy, Proxy], versions: list[Path], tmp_path: Path
) -> None:
    proxies[1].faults = [Fault("pause", refused, times=6, skip=1)]
    async with searching(tmp_path, versions, proxies[0].url, proxies[1].url) as search:
        lagging = search.fleet.members[1]
        search.learner.awaits = proxies[1].faults[0].over
        asked_in_vain: list[int] = []

        async def watch() -> None:
            while True:
                behind = lagging.version is not None and lagging.version < search.fleet.served
                if behind and search.fleet.may_be_asked(lagging):
                    asked_in_vain.append(search.fleet.served)
                if behind and search.core.state.served > search.fleet.served:
                    asked_in_vain.append(search.core.state.served)
                await search.fleet._event.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await finish(search)
            tasks.cancel_scope.cancel()
        assert asked_in_vain == []
        assert "push_refused" in await fault_kinds(search)
    assert proxies[1].hit == ["pause"] * 6


async def test_an_engine_that_takes_long_to_fetch_a_version_holds_up_neither_the_other_one_nor_the_learner(
    proxies: tuple[Proxy, Proxy], versions: list[Path], tmp_path: Path
) -> None:
    """The run is over before its fetch of version 1 ends. Then it gets the newest version alone."""
    arrived = threading.Event()

    async def still_fetching(request: Request, forward: Forward) -> Response:
        await anyio.to_thread.run_sync(arrived.wait, abandon_on_cancel=True)
        return passed_on(await forward())

    proxies[1].faults = [Fault("weights_prepared", still_fetching, times=100, skip=1)]
    try:
        async with searching(tmp_path, versions, proxies[0].url, proxies[1].url) as search:
            near, far = search.fleet.members
            with anyio.fail_after(60):
                await search.fleet._until(lambda: far.version == near.version == 0)
            await finish(search)
            assert (near.version, far.version) == (UPDATES, 0)
            assert not search.fleet.may_be_asked(far)
            assert proxies[1].hit == ["weights_prepared"]
            arrived.set()
            with anyio.fail_after(60):
                await search.fleet._until(lambda: search.fleet.may_be_asked(far))
            assert far.version == UPDATES
    finally:
        arrived.set()


async def test_a_dead_engine_of_two_gets_no_request_until_it_is_back(
    engines: tuple[EngineServer, EngineServer], versions: list[Path], strange: Path, tmp_path: Path
) -> None:
    mortal = EngineServer(strange)
    try:
        async with searching(tmp_path, versions, engines[0].url, mortal.url, stop__candidates=4 * UPDATES) as search:
            died = search.fleet.members[1]

            async def torment() -> None:
                await search.fleet._until(lambda: died.version is not None)
                await search.core.wait_until(lambda: search.core.state.evaluated >= 2)
                await anyio.to_thread.run_sync(mortal.kill)
                await search.core.wait_until(lambda: search.core.state.served >= 1)
                assert not search.fleet.may_be_asked(died), "the other one carries on alone"
                await anyio.to_thread.run_sync(mortal.start, "7")
                await search.fleet._until(lambda: search.fleet.may_be_asked(died))
                assert died.version is not None
                assert died.version >= 1

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(torment)
                await finish(search, aborted=None)
    finally:
        mortal.kill()


async def test_engines_that_all_stay_down_end_the_run_when_patience_is_over(
    versions: list[Path], strange: Path, tmp_path: Path
) -> None:
    engine = EngineServer(strange)
    async with searching(tmp_path, versions, engine.url, faults__patience_s=2.0) as search:

        async def kill() -> None:
            await search.core.wait_until(lambda: search.core.state.evaluated >= 2)
            await anyio.to_thread.run_sync(engine.kill)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            with anyio.fail_after(240), pytest.raises(GaveUp, match="for 2 s") as gave_up:
                await drive(search.core, search.fleet)
            assert gave_up.value.exit_code == 6
        states = await search.rows("select state from run_states order by number desc limit 1")
        assert states[0]["state"] == "gave_up"
        wrong = [found for found in await search.run.store.read(lambda c: list(audit(c))) if not found.ok]
        assert wrong == []


async def test_rollouts_of_a_server_without_spans_count_as_the_older_version(
    proxies: tuple[Proxy, Proxy], versions: list[Path], tmp_path: Path
) -> None:
    proxies[0].faults = [Fault("inference/v1/generate", without_spans, times=10_000)]
    async with searching(tmp_path, versions, proxies[0].url) as search:
        await finish(search, spans=False)
    assert len(proxies[0].hit) >= 3 * 4 * UPDATES
