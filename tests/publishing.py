"""What a push asks of a server, in its order."""

PHASES = (
    "init_weight_transfer_engine",
    "pause",
    "start_weight_update",
    "update_weights",
    "collective_rpc",
    "finish_weight_update",
    "resume",
)
