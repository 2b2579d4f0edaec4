"""Whether two states of a run are the same, but for what a process alone has."""

from dataclasses import fields

from pace_async.state.run_state import RunState

OF_A_PROCESS = {"claimed", "reserved", "lent", "lent_programs"}
"""What a process that begins has none of: places that are claimed, calls in flight, and what helped to fold."""


def differences(live: RunState, folded: RunState) -> list[str]:
    """Fields in which two states differ, and whether the buffers have the same order."""
    names = [field.name for field in fields(RunState) if field.name not in OF_A_PROCESS]
    found = [name for name in names if getattr(live, name) != getattr(folded, name)]
    return found if list(live.complete) == list(folded.complete) else [*found, "order of complete"]
