"""Memory of a trainer that nobody uses any more.

TRL and accelerate put methods of their own into the model, which refer to the model again. Only the garbage collector
frees such a cycle, and it counts objects and not bytes: a trainer of some thousand objects may hold gigabytes for as
long as the next one is loaded beside it.

Only imported in the learner's child process.
"""

import gc
from typing import Any, cast

import torch


def free_released() -> None:
    """Free what nothing refers to, and give back the card's memory that torch keeps for reuse."""
    gc.collect()
    if torch.cuda.is_available():
        cast("Any", torch.cuda).empty_cache()
