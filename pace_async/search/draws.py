"""Random draws without generator state: each is derived from the run's seed, the lease and the purpose."""

import hashlib
import random


def derive(seed: int, *parts: int | str) -> int:
    """A 63-bit seed that depends on every part, the same on every machine."""
    text = "/".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def generator(seed: int, *parts: int | str) -> random.Random:
    """A generator for one purpose of one lease."""
    return random.Random(derive(seed, *parts))
