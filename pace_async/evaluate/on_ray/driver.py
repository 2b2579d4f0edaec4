"""The process of a run that is connected to Ray: it calls Ray for the runtime, and answers by frames (`frames`).

No other module calls Ray. Its types are partly unknown, so they end here. It is a separate process because Ray ends the
process that is connected when the head of its cluster has been gone for a minute, replaces signal handlers, and sends
nodes the command line, the folder and the environment of that process. So those of the runtime reach no node.

Invariants: only the death of an actor or of its node is a loss. After any other failure of a call the actor may still
be at work, and the answer says that. An actor is found by its name, also by another process than the one that started
it. This process ends when its input is closed, or with the runtime.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from ipaddress import ip_address
from typing import Any, BinaryIO, cast

from pace_async.children import die_with_parent
from pace_async.errors import PaceError, UsageError
from pace_async.evaluate.on_ray.frames import (
    ActorLost,
    DriverAnswer,
    DriverRequest,
    NodeSeen,
    Reservation,
    StoredValue,
    Unanswered,
    framed,
    next_message,
)
from pace_async.evaluate.on_ray.node import NodeEvaluator

NAMESPACE = "pace"
LAST_S = 5.0
"""How long Ray may take to disconnect."""
READ_BYTES = 1 << 20


class Driver:
    """Answers requests. Each runs in a task of its own, so a later one may be answered first."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._handles: dict[str, Any] = {}
        self._stored: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, requests: asyncio.StreamReader) -> None:
        """Return when the input ends."""
        with suppress(asyncio.IncompleteReadError):
            while True:
                request = cast("DriverRequest", await next_message(requests.readexactly))
                if request.what == "kill":  # in order, and before the end of the input is seen
                    await self._answered(request)
                    continue
                task = asyncio.create_task(self._answered(request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answered(self, request: DriverRequest) -> None:
        work = cast("Callable[..., Coroutine[Any, Any, object]]", getattr(self, f"_{request.what}"))
        try:
            answer = DriverAnswer(request.number, await work(*request.arguments))
        except Exception as error:
            is_call = request.what == "call"  # any other error is of Ray itself, which may be cut off
            answer = DriverAnswer(request.number, None, error if is_call else Unanswered(_last_line(str(error))))
        self.tell(answer)

    def tell(self, answer: DriverAnswer) -> None:
        self._out.write(framed(answer))
        self._out.flush()

    async def _nodes(self) -> list[NodeSeen]:
        """The living nodes. This process ends if its own node is none of them: what it has put into Ray's object store
        is lost then, which Ray does not report. The runtime starts another process."""
        nodes = await asyncio.to_thread(_nodes)
        if _ray().get_runtime_context().get_node_id() not in {node.id for node in nodes}:
            sys.stderr.write("the node of this process is gone\n")
            os._exit(1)
        return nodes

    async def _named(self, prefix: str) -> list[str]:
        """The names of living actors that begin so."""
        names = cast("list[str]", await asyncio.to_thread(_module("ray.util").list_named_actors))
        return [name for name in names if name.startswith(prefix)]

    async def _put(self, key: str, value: object) -> None:
        self._stored[key] = await asyncio.to_thread(_ray().put, value)

    async def _start(self, name: str, node: str, reserved: Reservation) -> None:
        self._handles[name] = await asyncio.to_thread(_start, name, node, reserved)

    async def _request(self, bundles: list[dict[str, float]]) -> None:
        """Ask the autoscaler for room for all of these at once, in place of what was asked before."""
        await asyncio.to_thread(_module("ray.autoscaler.sdk").request_resources, bundles=bundles)

    async def _kill(self, name: str) -> None:
        with suppress(Exception):  # it has died, or the cluster is gone
            _ray().kill(await self._handle(name), no_restart=True)

    async def _call(self, name: str, method: str, arguments: tuple[Any, ...]) -> object:
        errors = _module("ray.exceptions")
        values = [
            self._stored[argument.key] if isinstance(argument, StoredValue) else argument for argument in arguments
        ]
        try:
            handle = await self._handle(name)
            reference = getattr(handle, method).remote(*values)
            return await asyncio.wrap_future(cast("Future[Any]", reference.future()))
        except (errors.ActorDiedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            raise ActorLost(_last_line(str(error))) from None
        except errors.ActorUnschedulableError as error:
            raise ActorLost(_last_line(str(error))) from None
        except errors.RayTaskError as error:
            if not isinstance(error.cause, PaceError):
                sys.stderr.write(f"{error}\n")
            raise error.cause from None
        except errors.RayError as error:
            raise Unanswered(_last_line(str(error))) from None

    async def _handle(self, name: str) -> Any:
        if name not in self._handles:
            try:
                self._handles[name] = await asyncio.to_thread(_ray().get_actor, name, NAMESPACE)
            except ValueError:
                raise ActorLost("the cluster does not know it any more") from None
            except Exception as error:
                raise Unanswered(_last_line(str(error))) from None
        return self._handles[name]


def _module(name: str) -> Any:
    return cast("Any", import_module(name))


def _ray() -> Any:
    return _module("ray")


def _start(name: str, node: str, reserved: Reservation) -> Any:
    affinity = _module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy(node, False)
    resources = dict(reserved.resources)
    options: dict[str, Any] = {
        "name": name,
        "num_cpus": resources.pop("CPU", 0.0),
        "num_gpus": resources.pop("GPU", 0.0),
        "max_restarts": 0,
        "scheduling_strategy": affinity,
        "lifetime": "detached" if reserved.outlives else None,
    }
    if (memory := resources.pop("memory", 0.0)) > 0:
        options["memory"] = memory
    return _ray().remote(NodeEvaluator).options(**options, resources=resources).remote()


def _nodes() -> list[NodeSeen]:
    ray = _ray()
    free = cast("dict[str, dict[str, float]]", ray._private.state.available_resources_per_node())
    alive = [node for node in cast("list[dict[str, Any]]", ray.nodes()) if node["Alive"]]
    nodes = [
        NodeSeen(
            node["NodeID"], f"{node['NodeManagerHostname']}-{node['NodeID'][:6]}", dict(free.get(node["NodeID"], {}))
        )
        for node in alive
    ]
    return sorted(nodes, key=lambda node: node.id)


def _last_line(text: str) -> str:
    """The last line of an error of Ray that is not empty, as one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = "".join(
        character if character.isprintable() else " " for character in (lines[-1] if lines else "no reason given")
    )
    return reason[:200].rstrip(" .:")


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


async def _connect(address: str, host: str, port: int, answer_s: float) -> None:
    """Raises UsageError, in one sentence, if no cluster can be used at this address."""
    tokens = _module("ray._raylet").AuthenticationTokenLoader.instance()
    if not (_is_loopback(host) or tokens.has_token(ignore_auth_mode=True)):
        raise UsageError(
            f"There is no token for the Ray cluster at {address}, and without one anybody who can reach it can run "
            "code on its nodes: `ray get-auth-token --generate` makes one, for all machines (docs/cluster.md)."
        )
    try:
        async with asyncio.timeout(answer_s):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
    except OSError:
        raise UsageError(
            f"No Ray cluster answers at {address}: start one there (ray start --head), or name another."
        ) from None
    ray = _ray()
    logging.getLogger("ray._private.worker").setLevel(logging.ERROR)
    own = ray.job_config.JobConfig(_client_job=True)  # the working folder is sent to no node
    try:
        await asyncio.to_thread(
            ray.init,
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            configure_logging=False,
            job_config=own,
        )
    except Exception as error:
        if type(error).__name__ == "AuthenticationError":
            raise UsageError(
                f"The Ray cluster at {address} refuses this token: give RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH."
            ) from None
        raise UsageError(f"The Ray cluster at {address} cannot be used: {_last_line(str(error))}.") from None


async def _main(out: BinaryIO, address: str, host: str, port: int, answer_s: float) -> None:
    driver = Driver(out)
    try:
        await _connect(address, host, port, answer_s)
    except UsageError as error:
        driver.tell(DriverAnswer(0, None, error))
        return
    driver.tell(DriverAnswer(0))
    requests = asyncio.StreamReader(READ_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)
    await driver.serve(requests)
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_S):
            await asyncio.to_thread(_ray().shutdown)


def main() -> None:
    """The child process. What Ray prints goes to its log."""
    die_with_parent()
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        address, host, port, answer_s = sys.argv[1:]
        with suppress(BrokenPipeError):
            asyncio.run(_main(out, address, host, int(port), float(answer_s)))
        out.flush()
        os._exit(0)  # a thread of Ray may wait for a cluster that is gone


if __name__ == "__main__":
    main()
