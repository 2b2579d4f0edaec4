"""Ray, as far as pace uses it: one connection of this process, the nodes, and actors that are pinned to a node.

No other module calls Ray. Its types are partly unknown, so they end here.

Invariants: neither our environment, nor our command line, nor our folder reaches a node, because all of them may hold
secrets or files that stand in for a package. Our signal handlers stay in force. Every wait has a deadline. Only the
death of an actor or of its node is a loss. After any other failure of a call the actor may still be at work, so the
caller asks it again.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any, TypeVar, cast

import anyio

from pace_async.errors import UsageError

NAMESPACE = "pace"
INSTALL = "pip install 'pace-async[ray]'"
SHUTDOWN_S = 10.0
T = TypeVar("T")


class ActorLost(Exception):
    """An actor or its node has died. The text is one line for a person."""


class Unanswered(Exception):
    """A call has no answer, and its actor may be alive. Whether it ran is not known."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A living node: its identity in Ray, a name for a person, and what no actor has reserved."""

    id: str
    name: str
    free: Mapping[str, float]


def refuse_unless_installed() -> None:
    """Raises UsageError without Ray."""
    if find_spec("ray") is None:
        raise UsageError(f"Evaluations on Ray need Ray, which is not installed here: {INSTALL}.")


class Actor:
    """One actor. Its calls are ordered."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def call(self, method: str, *arguments: object) -> Any:
        """Call a method and wait. A task that stops waiting ends nothing on the node. Raises ActorLost, Unanswered, and
        whatever the method raises."""
        errors = cast("Any", import_module("ray.exceptions"))
        try:
            reference = getattr(self._handle, method).remote(*arguments)
            answer = asyncio.wrap_future(cast("Future[Any]", reference.future()))
            answer.add_done_callback(_retrieved)
            return await asyncio.shield(answer)
        except (errors.ActorDiedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            raise ActorLost(_why(str(error))) from None
        except errors.ActorUnschedulableError as error:
            raise ActorLost(_why(str(error))) from None
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayError as error:
            raise Unanswered(_why(str(error))) from None

    def kill(self) -> None:
        """End it at once, also while it is pending."""
        with suppress(Exception):  # it has died, or the cluster is gone
            _ray().kill(self._handle, no_restart=True)


class Cluster:
    """The connection of this process."""

    async def nodes(self) -> list[NodeSeen]:
        """The nodes that are alive."""
        return await anyio.to_thread.run_sync(_nodes)

    async def put(self, value: object) -> Any:
        """A reference to a value in Ray's object store, where each node keeps one copy."""
        return await anyio.to_thread.run_sync(cast("Callable[[object], Any]", _ray().put), value)

    async def start(self, kind: type, name: str, node: NodeSeen, cpus: float, gpus: float) -> Actor:
        """An actor on this node, which reserves these resources. It may be pending when this returns, and Ray ends it
        when this process has ended."""
        made = partial(_start, kind, name, node.id, cpus, gpus)
        return Actor(await anyio.to_thread.run_sync(made))


@asynccontextmanager
async def connected(address: str, timeout_s: float, environment: Mapping[str, str]) -> AsyncGenerator[Cluster]:
    """Connect this process. `environment` are Ray's variables for the connection, such as where its token lies. Raises
    UsageError, in one sentence, if no cluster can be used at this address."""
    refuse_unless_installed()
    host, port = _parted(address)
    if not (host == "localhost" or _is_loopback(host) or await asyncio.wrap_future(_in_thread(_has_token))):
        raise UsageError(
            f"There is no token for the Ray cluster at {address}, and without one whoever reaches it runs code on its "
            "nodes: `ray get-auth-token --generate` makes one, for all machines (docs/cluster.md)."
        )
    if not await _answers(host, port, min(timeout_s, 5.0)):
        raise UsageError(f"No Ray cluster answers at {address}: start one there (ray start --head), or name another.")
    silent = (
        f"The Ray cluster at {address} did not answer within {timeout_s:.0f} s: is this the port of its head, and does "
        "it have the token of this machine (RAY_AUTH_MODE=token, RAY_AUTH_TOKEN_PATH)?"
    )
    with _handlers_kept():
        began = _in_thread(partial(_connect, address, environment))
        with anyio.move_on_after(timeout_s) as scope:
            try:
                await asyncio.wrap_future(began)
            except Exception as error:
                if type(error).__name__ == "AuthenticationError":
                    silent = (
                        f"The Ray cluster at {address} refuses this token: give RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH."
                    )
                else:
                    silent = f"The Ray cluster at {address} cannot be used: {_why(str(error))}."
                raise UsageError(silent) from None
        if scope.cancelled_caught:
            raise UsageError(silent)
    try:
        yield Cluster()
    finally:
        with anyio.move_on_after(SHUTDOWN_S, shield=True):
            await asyncio.wrap_future(_in_thread(cast("Callable[[], object]", _ray().shutdown)))


def _parted(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise UsageError(f"{address!r} is no address of a Ray cluster: give HOST:PORT, such as 10.0.0.5:6379.")
    return host.strip("[]"), int(port)


async def _answers(host: str, port: int, timeout_s: float) -> bool:
    with anyio.move_on_after(timeout_s), suppress(OSError):
        stream = await anyio.connect_tcp(host, port)
        await stream.aclose()
        return True
    return False


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def _has_token() -> bool:
    """Whether Ray finds one: in RAY_AUTH_TOKEN, in the file of RAY_AUTH_TOKEN_PATH, or in ~/.ray/auth_token."""
    tokens = cast("Any", import_module("ray._raylet")).AuthenticationTokenLoader.instance()
    tokens.reset_cache()
    return bool(tokens.has_token(ignore_auth_mode=True))


def _ray() -> Any:
    return cast("Any", import_module("ray"))


def _connect(address: str, environment: Mapping[str, str]) -> None:
    """Ray's own settings are read from the environment, by its loader of tokens too, so they are there meanwhile. It
    would tell every node the command line and the working folder, from which actors would import."""
    with _variables({**environment, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}):
        ray, raylet = _ray(), cast("Any", import_module("ray._raylet"))
        logging.getLogger("ray._private.worker").setLevel(logging.ERROR)
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()
        own = ray.job_config.JobConfig(_client_job=True)
        utilities = cast("Any", import_module("ray._private.utils"))
        cast("Any", import_module("ray._private.worker")).print_to_stdstream = _print_nothing
        told, utilities.get_entrypoint_name = utilities.get_entrypoint_name, lambda: "pace"
        try:
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False, job_config=own)
        finally:
            utilities.get_entrypoint_name = told


def _print_nothing(*_: object, **__: object) -> None:
    """Ray prints the deaths of its processes on our output, which belongs to the display."""


def _start(kind: type, name: str, node: str, cpus: float, gpus: float) -> Any:
    ray = _ray()
    affinity = cast("Any", import_module("ray.util.scheduling_strategies")).NodeAffinitySchedulingStrategy(node, False)
    options = {"name": name, "num_cpus": cpus, "num_gpus": gpus, "max_restarts": 0, "scheduling_strategy": affinity}
    return ray.remote(kind).options(**options).remote()


def _nodes() -> list[NodeSeen]:
    ray = _ray()
    free = cast("dict[str, dict[str, float]]", ray._private.state.available_resources_per_node())
    alive = [node for node in cast("list[dict[str, Any]]", ray.nodes()) if node["Alive"]]
    seen = [
        NodeSeen(node["NodeID"], f"{node['NodeManagerHostname']}-{node['NodeID'][:6]}", free.get(node["NodeID"], {}))
        for node in alive
    ]
    return sorted(seen, key=lambda node: node.id)


def _retrieved(answer: "asyncio.Future[Any]") -> None:
    """Nobody may wait for it any more, and asyncio would report its error."""
    if not answer.cancelled():
        answer.exception()


def _why(text: str) -> str:
    """The last line of an error of Ray that says something, for one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = "".join(one if one.isprintable() else " " for one in (lines[-1] if lines else "no reason given"))
    return said[:200].rstrip(" .:")


def _in_thread(work: Callable[[], T]) -> "Future[T]":
    """Ray installs no signal handlers outside of the main thread. The thread does not hold up the end of the
    process."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="ray", daemon=True).start()
    return future


@contextmanager
def _handlers_kept() -> Generator[None]:
    """Ray's own code writes a trace on SIGTERM before it calls the handler that was there, so ours are set anew."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if handler is not None:
                    signal.signal(number, handler)


@contextmanager
def _variables(given: Mapping[str, str]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
