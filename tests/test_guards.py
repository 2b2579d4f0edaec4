"""What holds for all tests, that nothing leaves the machine, and for the runtime, that nothing heavy loads early."""

import socket
import subprocess
import sys

import anyio
import pytest

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


def test_no_name_is_asked_for_beyond_this_machine() -> None:
    with pytest.raises(REFUSED, match=r"'example\.org'"):
        socket.create_connection(("example.org", 80), timeout=0.01)


@pytest.mark.anyio
async def test_the_event_loop_is_held_to_it_too_and_loopback_is_not() -> None:
    with pytest.RaisesGroup(REFUSED):
        await anyio.connect_tcp("192.0.2.1", 80)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, await anyio.connect_tcp("127.0.0.1", port) as stream:
        assert stream.extra(anyio.abc.SocketAttribute.remote_port) == port


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_the_runtime_loads_neither_torch_nor_litellm() -> None:
    heavy = ("torch", "transformers", "trl", "litellm", "vllm")
    code = f"import sys, pace_async.runtime.assemble; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=110, check=True)
    assert done.stdout.strip() == "[]"
