"""One call of an agent's command: started under a guard, ended with everything that it started.

Invariant: when `run_agent` returns or raises, no process of the call is left, and none outlives this process, even if
it is killed (see `agent_guard`). If the command has killed or stopped its guard, this process ends what it can find
(see `agent_leftovers`).
"""

import json
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import Process

from pace_async.children import child
from pace_async.implement import agent_guard
from pace_async.implement.agent_leftovers import MARK, end_leftovers

GUARD = Path(agent_guard.__file__)
GIT_CEILING = "GIT_CEILING_DIRECTORIES"


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """How a command ended: its exit code, minus the signal that killed it, or None if it could not be started
    (`failed` says why) or if its guard was killed. `output` and `errors` are the ends of its two streams."""

    code: int | None
    output: str = ""
    errors: str = ""
    failed: str = ""


async def run_agent(command: Sequence[str], folder: Path, stdin: Path, log: Path, timeout_s: float) -> AgentEnded:
    """Run a command in `folder`, with `stdin` as its standard input and the environment of this process. Git finds no
    repository above the folder. Raises TimeoutError."""
    guard = [sys.executable, "-I", "-S", str(GUARD), str(folder), str(stdin), *command]
    ceilings = [part for part in os.environ.get(GIT_CEILING, "").split(os.pathsep) if part]
    environment = {**os.environ, GIT_CEILING: os.pathsep.join([*ceilings, str(folder.parent)])}
    reply = bytearray()
    async with _guarded(guard, folder, log, environment) as process:
        assert process.stdout is not None
        with anyio.fail_after(timeout_s):
            async for chunk in process.stdout:
                reply += chunk
            await process.wait()
    try:
        result: dict[str, Any] = json.loads(reply)
    except ValueError:
        return AgentEnded(None, errors="its guard was killed")
    return AgentEnded(
        result.get("code"),
        str(result.get("output", "")),
        str(result.get("errors", "")),
        str(result.get("failed", "")),
    )


@asynccontextmanager
async def _guarded(
    command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]
) -> AsyncGenerator[Process]:
    """The guard. Nothing of the call is left after the block, also where the guard did not end by itself."""
    mark, started = secrets.token_hex(16), list[Process]()
    try:
        async with child(command, log=log, environment={**environment, MARK: mark}) as process:
            started.append(process)
            yield process
    finally:
        if started and started[0].returncode != 0:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(end_leftovers, mark, started[0].pid, folder)
