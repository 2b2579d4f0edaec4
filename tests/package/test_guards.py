"""What holds for all tests, that nothing leaves the machine, and for the runtime, that nothing heavy loads early."""

import ast
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

import pace_async
from pace_async.installing import install_line

REFUSED = pytest.fail.Exception


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("93.184.215.14", 443)])
def test_no_test_can_connect_beyond_this_machine(address: tuple[str, int]) -> None:
    with socket.socket() as outside:
        outside.settimeout(0.01)
        with pytest.raises(REFUSED, match="tests stay on this machine"):
            outside.connect(address)
        with pytest.raises(REFUSED, match="tests stay on this machine"):
            outside.connect_ex(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside, pytest.raises(REFUSED):
        outside.sendto(b"x", address)


def test_no_host_name_is_looked_up_beyond_this_machine() -> None:
    with pytest.raises(REFUSED, match=r"'example\.org'"):
        socket.create_connection(("example.org", 80), timeout=0.01)


async def test_the_event_loop_is_guarded_too_and_loopback_is_allowed() -> None:
    with pytest.RaisesGroup(REFUSED):
        await anyio.connect_tcp("192.0.2.1", 80)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, await anyio.connect_tcp("127.0.0.1", port) as stream:
        assert stream.extra(anyio.abc.SocketAttribute.remote_port) == port


def test_nothing_is_raised_within_except_star() -> None:
    """Python before 3.11.4, which Debian 12 has, puts it into a group: GaveUp became a traceback. A bare raise is the
    same in each."""
    package = Path(pace_async.__file__).parent
    wrong = [
        f"{file.relative_to(package)}:{inner.lineno}"
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.TryStar)
        for handler in node.handlers
        for inner in ast.walk(handler)
        if isinstance(inner, ast.Raise) and inner.exc is not None
    ]
    assert wrong == []


def test_the_runtime_loads_neither_torch_nor_litellm() -> None:
    heavy = ("torch", "transformers", "trl", "litellm", "vllm")
    code = f"import sys, pace_async.runtime.start.assemble; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=110, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.long
@pytest.mark.nightly
def test_a_machine_without_the_driver_of_postgresql_runs_on_sqlite_and_names_the_driver_where_it_is_needed(
    tmp_path: Path,
) -> None:
    blocked = "import sys; sys.modules['psycopg'] = None; from pace_async.cli.main import main; sys.exit(main())"
    simulated = subprocess.run(
        [sys.executable, "-c", blocked, *("simulate", "--candidates", "8", "--group-size", "4", "--threads", "2")],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert simulated.returncode == 0, simulated.stderr
    asked = subprocess.run(
        [sys.executable, "-c", blocked, "run", "--db", "postgresql://nobody@localhost/none", "--display", "none"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=110,
        check=False,
    )
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr.strip() == (
        f"pace: PostgreSQL needs a driver that is not installed: {install_line('postgres')}."
    )
