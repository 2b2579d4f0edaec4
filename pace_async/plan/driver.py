"""Whether this machine's NVIDIA driver is new enough for the installed torch. vLLM's CUDA build runs on that torch too.

A driver runs every CUDA program of its own major version and of earlier ones. What nvidia-smi states is what libcuda
serves: in a container with NVIDIA's package for forward compatibility it is more than the driver alone. Loads neither
torch nor a library of CUDA.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

DEADLINE_S = 20.0
FIRST_DRIVERS = {11: 450, 12: 525, 13: 580}
"""The first driver of each major version of CUDA, from NVIDIA's table of compatible versions."""

_VERSION_OF_TORCH = re.compile(r"^__version__(?:: *str)? *= *'([^']+)'", re.MULTILINE)
_CUDA_OF_TORCH = re.compile(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", re.MULTILINE)
_DRIVER = re.compile(r"(?:Driver|KMD) Version\s*:\s*(\d[\d.]*)")
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*(\d[\d.]*)")
"""Since driver 610 the heads are called KMD Version and CUDA UMD Version."""


@dataclass(frozen=True, slots=True)
class Driver:
    """`version` is such as 580.65.06, and `cuda` the newest CUDA that it serves, such as 13.0, None if it states
    none."""

    version: str
    cuda: str | None

    def serves(self, cuda: str) -> bool | None:
        """Whether programs of this CUDA run. None: not known."""
        if self.cuda is not None:
            return _major(self.cuda) >= _major(cuda)
        first = FIRST_DRIVERS.get(_major(cuda))
        return None if first is None else _major(self.version) >= first


@dataclass(frozen=True, slots=True)
class Torch:
    """The installed torch. `cuda` is the version that it is built for, None for a build without CUDA."""

    version: str
    cuda: str | None


@dataclass(frozen=True, slots=True)
class TooOld:
    """Why no card can be used, as a clause, and what to do."""

    found: str
    remedy: str


def too_old() -> TooOld | None:
    """None if the installed torch can use the cards of this machine, or if that is not known."""
    torch = torch_here()
    if torch is None or torch.cuda is None:
        return None
    driver = driver_here()
    if driver is None or driver.serves(torch.cuda) is not False:
        return None
    major = _major(torch.cuda)
    needs = f"torch {torch.version} is built for CUDA {torch.cuda}"
    serves = "is too old" if driver.cuda is None else f"serves CUDA {driver.cuda}"
    newer = f"install driver {FIRST_DRIVERS[major]} or a later one" if major in FIRST_DRIVERS else "install a later one"
    return TooOld(f"the NVIDIA driver {driver.version} {serves}, and {needs}", newer)


def torch_here() -> Torch | None:
    """The torch of this environment, from its own files. None if it is not installed."""
    try:
        package = distribution("torch")
    except PackageNotFoundError:
        return None
    file = Path(str(package.locate_file("torch/version.py")))
    try:
        text = file.read_text("utf-8")
    except (OSError, ValueError):
        text = ""
    version, cuda = _VERSION_OF_TORCH.search(text), _CUDA_OF_TORCH.search(text)
    # A package of the usual index leaves out of its own version for which CUDA it is built.
    return Torch(package.version if version is None else version[1], None if cuda is None else cuda[1])


def driver_here() -> Driver | None:
    """The driver as nvidia-smi states it. None without nvidia-smi, or if it states none."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    try:
        done = subprocess.run([command], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return stated_in(done.stdout)


def stated_in(head: str) -> Driver | None:
    """The driver in the text that nvidia-smi prints without arguments."""
    driver, cuda = _DRIVER.search(head), _CUDA.search(head)
    return None if driver is None else Driver(driver[1], None if cuda is None else cuda[1])


def _major(version: str) -> int:
    return int(version.partition(".")[0])
