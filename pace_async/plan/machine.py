"""What this machine has: memory of its cards as the driver reports it, free host memory and free disk."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pace_async.plan.places import Capacity, CardMemory

MEMORY = Path("/proc/meminfo")
MOUNTS = Path("/proc/mounts")
SHARED = Path("/dev/shm")
_IN_MEMORY = ("tmpfs", "ramfs")
_QUERY = ("--query-gpu=index,uuid,memory.total,memory.used", "--format=csv,noheader,nounits")
_MIB = 2.0**20
DEADLINE_S = 20.0


def capacity_here(gpus: Sequence[str], folder: Path) -> Capacity:
    """What is free for a run in `folder` that sees these cards."""
    exists = next(place for place in (folder.resolve(), *folder.resolve().parents) if place.is_dir())
    return Capacity(
        cards_of_driver(gpus),
        free_memory(),
        float(shutil.disk_usage(exists).free),
        shared=float(shutil.disk_usage(SHARED).free) if SHARED.is_dir() else None,
        disk_in_memory=lies_in_memory(exists),
    )


def lies_in_memory(folder: Path) -> bool:
    """Whether files in this folder take host memory, because its file system is there."""
    try:
        mounts = [line.split() for line in MOUNTS.read_text(errors="replace").splitlines()]
    except OSError:
        return False
    above = [fields for fields in mounts if len(fields) > 2 and folder.is_relative_to(fields[1])]
    return bool(above) and max(above, key=lambda fields: len(fields[1]))[2] in _IN_MEMORY


def cards_of_driver(gpus: Sequence[str]) -> Mapping[str, CardMemory]:
    """The memory of these cards, by the names in CUDA_VISIBLE_DEVICES. Empty without nvidia-smi."""
    command = shutil.which("nvidia-smi")
    if command is None or not gpus:
        return {}
    try:
        done = subprocess.run([command, *_QUERY], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return cards_in(done.stdout, gpus)


def cards_in(table: str, gpus: Sequence[str]) -> Mapping[str, CardMemory]:
    """The cards of nvidia-smi's table (number, UUID, MiB in all, MiB used) that these names mean."""
    known: dict[str, CardMemory] = {}
    for line in table.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 4 or not (fields[2].isdigit() and fields[3].isdigit()):
            continue
        for name in gpus:
            if name == fields[0] or fields[1].startswith(name):
                known[name] = CardMemory(name, int(fields[2]) * _MIB, int(fields[3]) * _MIB)
    return known


def free_memory() -> float | None:
    """Bytes of host memory that are free, None if the kernel does not report it."""
    try:
        lines = MEMORY.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024.0
    return None
