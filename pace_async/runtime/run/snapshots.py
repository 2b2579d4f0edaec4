"""When a running run keeps a snapshot: what its facts so far come to, from which a resume goes on.

Invariant: the state and the view are those after the fact `seq`, because facts are applied in the order of their
commits, each once. Where that is no longer certain, none is kept. No decision is under way whose fact is still to come,
because what it saw may have changed since.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from pace_async.events import Fact
from pace_async.observe.followed import Followed
from pace_async.population.journal.states import encoding_of
from pace_async.state.run_state import RunState

log = logging.getLogger(__name__)

EVERY = 5000
"""Facts between two snapshots, at least. A resume folds as many in about 0.2 s, so nobody would notice more of them."""
BYTES = 500
"""The most bytes of snapshots that a fact pays for, a tenth of what its rows take. A run that remembers all its results
(`search.memory`) has a state that grows with it."""


class KeepsSnapshots(Protocol):
    """A population that keeps the newest snapshot of its run."""

    def keep_snapshot(self, seq: int, encode: Callable[[], tuple[bytes, bytes]]) -> None:
        """Keep in the background what the facts up to `seq` come to. Never waits, never raises."""
        ...


class Snapshots:
    """Those of one process. `followed` is the run as of the fact `seq`, and `since` of the facts are in no snapshot."""

    def __init__(self, keeper: KeepsSnapshots, state: RunState, followed: Followed, seq: int, since: int) -> None:
        self._keeper, self._state, self._followed = keeper, state, followed
        self._seq, self._since = seq, since
        self._apart = EVERY
        self._certain = True

    def stop(self) -> None:
        """Keep none any more: it is not known whether a fact was written."""
        self._certain = False

    def after(self, facts: tuple[Fact, ...]) -> None:
        """These were committed in one transaction and applied to the state."""
        if not self._certain:
            return
        try:
            for fact in facts:
                self._followed.take(fact)
        except Exception:  # the run does not depend on it
            log.exception("no snapshots are kept any more")
            self.stop()
            return
        self._seq += len(facts)
        self._since += len(facts)
        if self._since >= self._apart and not self._state.claimed.openings:
            self._since = 0
            self._keeper.keep_snapshot(self._seq, self._encoding())

    def _encoding(self) -> Callable[[], tuple[bytes, bytes]]:
        state_of, view_of = encoding_of(self._state), self._followed.encoding()

        def encode() -> tuple[bytes, bytes]:
            state, view = state_of(), view_of()
            self._apart = max(EVERY, (len(state) + len(view)) // BYTES)
            return state, view

        return encode
