"""Claimed places: what has to be visible before the fact that makes it so is committed.

A decision sees exactly what is committed before it, because commits are made in the order in which they are asked for.
So whoever asks for a commit on which others' decisions rest claims its place first: the number and the slot of a lease,
the USD of a call, and what the other islands may see of a rollout.

Invariant: a place is claimed for as long as its commit takes and no longer. With the fact applied it is no longer
claimed but known; where the commit fails or is cancelled, it is given up and nothing remains of it.
"""

from collections.abc import Generator
from contextlib import contextmanager

from pace_async.search.state import Member
from pace_async.state.run_state import Opening, Rollout, RunState


class ClaimedPlace:
    """The ways to claim one; each lasts as long as the body of its `with`."""

    @staticmethod
    @contextmanager
    def lease(state: RunState, place: Opening) -> Generator[None]:
        """The next lease is its island's. Only after `may_admit`."""
        state.claimed.openings[place.lease.lease] = place
        try:
            yield
        finally:
            state.claimed.openings.pop(place.lease.lease, None)

    @staticmethod
    @contextmanager
    def program(state: RunState, lease: int, island: int, member: Member | None) -> Generator[None]:
        """The other islands may go on from this program."""
        if member is not None:
            state.claimed.programs[lease] = island, member
        try:
            yield
        finally:
            state.claimed.programs.pop(lease, None)

    @staticmethod
    @contextmanager
    def rollouts(state: RunState, *rollouts: Rollout) -> Generator[None]:
        """The other islands may see all that these found."""
        state.claimed.rollouts.update({rollout.lease.lease: rollout for rollout in rollouts})
        try:
            yield
        finally:
            for rollout in rollouts:
                state.claimed.rollouts.pop(rollout.lease.lease, None)

    @staticmethod
    @contextmanager
    def money(state: RunState, usd: float) -> Generator[int]:
        """A call may cost up to `usd`; yields the number of its reservation."""
        number = max(state.reservations, *state.claimed.money, 0) + 1
        state.claimed.money[number] = usd
        try:
            yield number
        finally:
            state.claimed.money.pop(number, None)
