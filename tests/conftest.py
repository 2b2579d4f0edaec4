"""Settings of every test: no limit on the time of an example, because the machine is shared, and no access to others.

The examples of property tests are the same in every run, so that a pass means the same everywhere. Others are drawn
with `--hypothesis-profile explore`, worth an hour now and then.

Tests marked `needs_vllm` are skipped if vLLM cannot serve, and counted in the summary, so that a skip is not taken for
a pass. With PACE_NEEDS_VLLM=1 they fail instead.
"""

import importlib.util
import ipaddress
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import settings

from pace_async.advise.engines.vllm_found import Missing, find_vllm
from pace_async.plan import counted
from pace_async.population import schema
from pace_async.runtime.run_index import HOME
from tests.faults.listing import FaultListing
from tests.support.children_here import counted_here, run_here
from tests.support.command_line import Shell
from tests.support.needed import without
from tests.support.own_folder import OwnFolder
from tests.support.own_hosts import OWN_HOSTS
from tests.support.population_facts import BOTH, made_once, populations_of
from tests.support.postgres import PostgresServer, binaries, running
from tests.support.start_up import StartUpFrozen

TESTS = Path(__file__).parent

os.environ["HF_HUB_OFFLINE"] = "1"  # as our child processes have it; read when the library is imported
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` ignores it, and so would the runs under test

settings.register_profile("shared machine", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("shared machine")


@pytest.fixture(autouse=True, scope="session")
def _only_loopback() -> Iterator[None]:
    """Refuse whatever this process would connect or send to beyond the machine, and every name that must be asked for
    there. Children are not watched: sandboxed ones have no network, and ours only ever get addresses from here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex", "sendto"):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
        patch.setattr(socket, "getaddrinfo", _named(socket.getaddrinfo))
        yield


@pytest.fixture(autouse=True, scope="session")
def _made_once() -> Iterator[None]:
    """What a command of this process makes anew each time, as if it was the only one: new populations, and the tree of
    commands, which takes 30 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "_migrate", made_once)
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


def _guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, *arguments: Any) -> Any:
        address = arguments[-1]  # sendto may have flags before it
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_unless_here(address[0])
        return call(self, *arguments)

    return guarded


def _named(call: Callable[..., Any]) -> Callable[..., Any]:
    def named(host: Any, *arguments: Any, **more: Any) -> Any:
        _refuse_unless_here(host)
        return call(host, *arguments, **more)

    return named


def _refuse_unless_here(host: object) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return
    try:
        here = ipaddress.ip_address(str(name).partition("%")[0])
    except ValueError:
        here = None
    if str(here) in OWN_HOSTS:
        return
    if here is None or not (here.is_loopback or here.is_unspecified):
        pytest.fail(f"a test wants to reach {name!r}: tests stay on this machine")  # no `except Exception` hides it


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop of every asynchronous test: the runtime uses asyncio's own functions."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this session. Skips if it is not installed (with PACE_NEEDS_POSTGRES=1: fails)."""
    tools, driver = binaries(), importlib.util.find_spec("psycopg")
    if tools is None or driver is None:
        missing = "apt install postgresql" if tools is None else "pip install '.[postgres]'"
        without("POSTGRES", f"needs PostgreSQL: {missing}")
    with running(tools) as server:
        yield server


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A person in an empty folder."""
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture(params=BOTH)
def both(request: pytest.FixtureRequest) -> Iterator[str]:
    """The database of this run of the test, which runs twice, on a SQLite file and on PostgreSQL."""
    with populations_of(request):
        yield request.param


@pytest.fixture
def children_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children of ours that only answer a question answer in this process."""
    monkeypatch.setattr(subprocess, "run", run_here)
    monkeypatch.setattr(counted._Child, "answer", counted_here)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--faults", action="store_true", help="only the tests of tests/faults/clauses.py, each clause told"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(FaultListing(bool(config.getoption("--faults"))))
    config.pluginmanager.register(OwnFolder(config))
    os.environ[HOME] = str(Path(config.option.basetemp, "home"))  # no test writes into the user's index of runs
    config.pluginmanager.register(StartUpFrozen())


SLOW_ROOMS = ("faults", "evaluate", "runtime", "advise", "learn", "cli", "tasks")
"""Their files take longest. Workers take files in this order, so that one which ends early still finds short ones."""


def _slow_first(items: list[pytest.Item]) -> None:
    """Put files with long tests before others, that with the longest time limit first, then the other files of slow
    rooms. Within a file long tests come first, so that a worker is given no second file meanwhile."""
    limits: dict[Path, float] = {}
    for item in items:
        if item.get_closest_marker("long"):
            mark = item.get_closest_marker("timeout")
            limits[item.path] = max(limits.get(item.path, 0.0), float(mark.args[0]) if mark else 1.0)

    def order(item: pytest.Item) -> tuple[float, int, str, bool]:
        room = item.path.relative_to(TESTS).parts[0]
        place = SLOW_ROOMS.index(room) if room in SLOW_ROOMS else len(SLOW_ROOMS)
        return -limits.get(item.path, 0.0), place, str(item.path), item.get_closest_marker("long") is None

    items.sort(key=order)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _slow_first(items)
    found = find_vllm()
    if isinstance(found, Missing) and not os.environ.get("PACE_NEEDS_VLLM"):
        for item in items:
            if item.get_closest_marker("needs_vllm"):
                item.add_marker(pytest.mark.skip(reason=f"needs vLLM: {found.found}; {found.remedy}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = {
        state: sum("needs_vllm" in getattr(report, "keywords", ()) for report in terminalreporter.getreports(state))
        for state in ("passed", "failed", "error", "skipped")
    }
    if any(counts.values()):
        terminalreporter.write_line("vllm: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
