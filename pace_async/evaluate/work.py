"""What a driver is to do."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """`instances` are JSON texts of one line each; `echoes` is how often giving and taking the first of them is tried
    without the program, to know what that costs."""

    program: str
    entry: str
    instances: Sequence[str]
    echoes: int = 0
