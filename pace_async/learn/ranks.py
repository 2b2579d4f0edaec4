"""The processes that train one model together, and the messages between them.

Each process is a rank. Rank 0 answers the runtime. It decides everything that depends on files, and tells the other
ranks which operation comes next. They take part in it (`follow`).

Invariant: ranks wait for one another only between `leading` and its end, which is while a request is worked on. So no
rank waits inside a collective while there is no group. Such waits have no deadline of their own. The runtime notices a
rank that has died or hangs and ends all of them (`client`).

The ranks meet on this machine alone. The variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are removed once they
are read: accelerate would form a group of its own, and TRL would gather its metrics from batches of unequal sizes.
Imports torch on first use.
"""

import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypeVar, cast

RANK, SIZE, ADDRESS, PORT, LISTENER = "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PACE_LISTENER"
"""Variables of a rank's environment. LISTENER is the number of the open socket at which rank 0 awaits the others."""

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"}

Operation = Literal["load", "step", "logprobs", "weights", "optimizer", "repeats", "continue_from"]

_T = TypeVar("_T")
_NO_DEADLINE = timedelta(days=30)


@dataclass(slots=True)
class Ranks:
    """Rank `number` of `count`. Every method that returns something of all ranks has to be called by all of them."""

    number: int = 0
    count: int = 1
    _leads: bool = field(default=False, init=False)

    @property
    def first(self) -> bool:
        return self.number == 0

    def gathered(self, mine: _T) -> list[_T]:
        """What each rank passed, in the order of their numbers."""
        if self.count == 1:
            return [mine]
        import torch.distributed as dist

        everyone: list[Any] = [None] * self.count
        cast("Any", dist).all_gather_object(everyone, mine)
        return everyone

    def told(self, value: Any = None) -> Any:
        """The value that rank 0 passed."""
        if self.count == 1:
            return value
        import torch.distributed as dist

        words = [value]
        cast("Any", dist).broadcast_object_list(words, src=0)
        return words[0]

    def call(self, operation: Operation, *arguments: Any) -> None:
        """Before rank 0 begins an operation that needs all ranks: call the others to it, if they follow."""
        if self._leads:
            self.told((operation, *arguments))

    @contextmanager
    def together(self, operation: Operation, *arguments: Any) -> Generator[None]:
        """As `call`, for an operation that contains others: all ranks go through those by themselves."""
        self.call(operation, *arguments)
        leads, self._leads = self._leads, False
        yield
        self._leads = leads

    @contextmanager
    def leading(self) -> Generator[None]:
        """On rank 0: the others follow until the body ends. If it fails, they are left waiting: it is not known what
        they wait for. The runtime then has to end them."""
        self._leads = self.count > 1
        yield
        if self._leads:
            self.told(None)
        self._leads = False


ALONE = Ranks()


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the ranks of one learner meet, as the environment of this rank gives it."""

    number: int
    count: int
    address: str
    port: int
    listener: int | None


def meeting() -> Meeting | None:
    """Take the variables from the environment. None if this process is the only rank."""
    variables = {name: os.environ.pop(name, "") for name in (RANK, SIZE, ADDRESS, PORT, LISTENER)}
    if int(variables[SIZE] or 1) == 1:
        return None
    listener = int(variables[LISTENER]) if variables[LISTENER] else None
    return Meeting(int(variables[RANK]), int(variables[SIZE]), variables[ADDRESS], int(variables[PORT]), listener)


def join(place: Meeting | None) -> Ranks:
    """Wait for all ranks: over gloo, and over NCCL too between cards."""
    if place is None:
        return ALONE
    import torch
    import torch.distributed as dist

    # It warns of a group that accelerate does not know. Here that is intended, and the last line of a log becomes a
    # message.
    logging.getLogger("transformers.training_args").addFilter(lambda line: "parallel_mode" not in line.getMessage())
    store = cast("Any", dist).TCPStore(
        place.address,
        place.port,
        place.count,
        is_master=place.number == 0,
        timeout=_NO_DEADLINE,
        master_listen_fd=place.listener,
        use_libuv=True,
    )
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    cast("Any", dist).init_process_group(
        backend, store=store, rank=place.number, world_size=place.count, timeout=_NO_DEADLINE
    )
    return Ranks(place.number, place.count)
