"""The processor time of a candidate's processes, and their wait for processors, read before they are ended.

If a control group counts processor time, it is the sum over all processes that were ever in it. Otherwise it is that of
the present processes and of the children that they waited for. The wait of a thread is the scheduler's own count, so a
sleeping program does not wait.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pace_async.evaluate.sandbox.cgroup import Group

FAR_LESS = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor seconds of all processes together, and the longest time in seconds that a thread was ready to run and
    did not run. None if the kernel does not count these."""

    processor_s: float
    waited_s: float | None


def starved(usage: Usage, seconds: float, share: float) -> bool:
    """Whether a program that ran for so many seconds had far less than its share of a processor, and did not wait by
    its own choice. `share` is at most 1."""
    far_less = FAR_LESS * share * seconds
    return usage.processor_s < far_less and (usage.waited_s is None or usage.waited_s >= far_less)


def measure(pid: int, group: Group | None) -> Usage:
    """The usage of the group, or, without one, of this process and its descendants."""
    members = group.members() if group is not None else _below(pid)
    counted = group.processor_s() if group is not None else None
    used = sum(map(_processor_s, members)) if counted is None else counted
    waits = [wait for member in members if (wait := _waited_s(member)) is not None]
    return Usage(used, max(waits, default=None))


def _below(pid: int) -> list[int]:
    processes = [pid]
    for process in processes:  # grows
        try:
            for thread in Path(f"/proc/{process}/task").iterdir():
                processes += map(int, (thread / "children").read_text().split())
        except OSError:
            continue  # it has ended, or this kernel does not report it
    return processes


def _processor_s(pid: int) -> float:
    """Of the process and of those of its children that it has waited for."""
    try:
        fields: Sequence[str] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def _waited_s(pid: int) -> float | None:
    longest = None
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            waited = int((thread / "schedstat").read_text().split()[1]) / 1e9
            longest = waited if longest is None else max(longest, waited)
    except (OSError, IndexError):
        return longest
    return longest
