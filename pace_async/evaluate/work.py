"""What a driver is to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Work:
    """`files` are the modules beside the program, by name of file. `instances` are JSON texts of one line each. `timed`
    work has its calls timed: it is held to one thread, and what giving an instance and taking an output costs is tried
    first, without the program. `timeout_s` stands for the evaluator's own limit where it is given."""

    program: str
    entry: str
    instances: Sequence[str]
    timed: bool = False
    timeout_s: float | None = None
    files: Mapping[str, str] = field(default_factory=dict[str, str])
