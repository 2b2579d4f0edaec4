"""Asks an actor until it answers, or until its slots are lost."""

from contextlib import suppress
from typing import Any

import anyio

from pace_async.evaluate.on_ray.cluster import ActorLost, Unanswered
from pace_async.evaluate.on_ray.placed import Placed

ASK_AGAIN_S = 1.0


async def called(placed: Placed, method: str, *arguments: Any) -> Any:
    """What an actor answers, asked again as long as there is no answer. Raises ActorLost, also when the actor has been
    silent for too long."""
    answer: list[Any] = []
    failed: list[Exception] = []
    if placed.gone.is_set():
        raise ActorLost(placed.why)
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            while True:
                try:
                    answer.append(await placed.actor.call(method, *arguments))
                except Unanswered:
                    await anyio.sleep(ASK_AGAIN_S)
                    continue
                except Exception as error:
                    failed.append(error)
                group.cancel_scope.cancel()
                return

        group.start_soon(ask)
        await placed.gone.wait()
        group.cancel_scope.cancel()
    if failed:
        raise failed[0]
    if not answer:
        raise ActorLost(placed.why)
    return answer[0]


async def close(placed: Placed) -> None:
    """Let an actor end its processes, if it can still be reached."""
    with suppress(ActorLost, Unanswered):
        await placed.actor.call("close")
