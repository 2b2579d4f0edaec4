"""Stand-ins for what a machine with a card has: nvidia-smi, device files, and the packages of CUDA builds."""

import os
from pathlib import Path

import pytest

from pace_async import gpus

HEAD_610 = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |
+-----------------------------------------+------------------------+----------------------+
"""
"""The head of nvidia-smi since driver 610."""


def head_of(driver: str, cuda: str) -> str:
    """The head of nvidia-smi before driver 610. The oldest ones state no CUDA: an empty `cuda`."""
    stated = f"CUDA Version: {cuda}" if cuda else ""
    return f"| NVIDIA-SMI {driver}    Driver Version: {driver}    {stated} |\n"


def install_nvidia_smi(folder: Path, patch: pytest.MonkeyPatch, head: str, *, card_gib: int = 80) -> None:
    """An nvidia-smi in this folder, first on the PATH: the head without arguments, else the table of one free card."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "head").write_text(head)
    program = folder / "nvidia-smi"
    table = f"0, GPU-5a00, {card_gib * 1024}, 0"
    program.write_text(f'#!/bin/sh\nif [ $# -eq 0 ]; then cat "{folder}/head"; else echo "{table}"; fi\n')
    program.chmod(0o755)
    patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def show_card(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The device file of one card, and no variable that hides it."""
    folder.mkdir()
    (folder / "nvidia0").touch()
    patch.setattr(gpus, "DEVICES", folder)
    patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def install_torch(folder: Path, patch: pytest.MonkeyPatch, cuda_line: str) -> None:
    """The metadata of a torch whose version file has this line, before all other packages."""
    _install(folder, patch, "torch", "2.13.0")
    (folder / "torch" / "version.py").write_text(f"__version__ = '2.13.0'\n{cuda_line}\nhip: Optional[str] = None\n")


def install_vllm(folder: Path, patch: pytest.MonkeyPatch, registry: str) -> None:
    """The metadata of vLLM's CUDA build with this list of models, before all other packages."""
    _install(folder, patch, "vllm", "0.32.0")
    models = folder / "vllm" / "model_executor" / "models"
    models.mkdir(parents=True)
    (models / "registry.py").write_text(registry)


def fits_never(_: str) -> bool:
    """In place of `vllm_models.fits_generic_model`, which starts a process: transformers has no class that fits."""
    return False


def _install(folder: Path, patch: pytest.MonkeyPatch, name: str, version: str) -> None:
    (folder / name).mkdir(parents=True)
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    patch.syspath_prepend(folder)
