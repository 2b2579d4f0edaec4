"""What a push asks of a server, in its order: paths, and of `collective_rpc` the method."""

import json

PHASES = (
    "init_weight_transfer_engine",
    "weights_prepared",
    "pause",
    "start_weight_update",
    "update_weights",
    "weight_receipt",
    "finish_weight_update",
    "resume",
)

ASKED_OVER_NCCL = ("serves_on", PHASES[0], "send", *PHASES[1:])
"""The same over NCCL, with the learner's part."""

ASKED_BY_IPC = ("share", *PHASES, "memory_closed")
"""The same where the engine opens the learner's memory, with the learner's part."""

BEFORE = PHASES[:3]
"""A push that fails in one of them has not begun."""


def phase_of(path: str, body: bytes) -> str:
    """Which phase a request belongs to."""
    asked = path.strip("/")
    return json.loads(body)["method"] if asked == "collective_rpc" else asked
