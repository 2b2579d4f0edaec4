"""Whether the driver is new enough for the installed torch, from what nvidia-smi prints and what torch's files say."""

import os
from pathlib import Path

import pytest

from pace_async.plan.driver import Driver, Torch, driver_here, stated_in, too_old, torch_here
from tests.support.stand_in_machine import HEAD_610, head_of, install_nvidia_smi, install_torch


@pytest.mark.parametrize(
    ("head", "stated"),
    [
        (head_of("535.104.05", "12.2"), Driver("535.104.05", "12.2")),
        (HEAD_610, Driver("610.43.02", "13.3")),
        (head_of("396.54", ""), Driver("396.54", None)),
        (head_of("550.54.14", "N/A"), Driver("550.54.14", None)),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", None),
        ("0, GPU-5a00, 81920, 4", None),
    ],
)
def test_driver_and_cuda_are_read_from_the_heads_of_every_series(head: str, stated: Driver | None) -> None:
    assert stated_in(head) == stated


@pytest.mark.parametrize(
    ("driver", "cuda", "serves"),
    [
        (Driver("535.104.05", "12.2"), "13.0", False),
        (Driver("535.104.05", "12.2"), "12.9", True),  # minor versions are compatible
        (Driver("580.65.06", "13.0"), "12.9", True),
        (Driver("535.104.05", "13.0"), "13.0", True),  # libcuda of the package for forward compatibility
        (Driver("396.54", None), "12.9", False),
        (Driver("580.65.06", None), "13.0", True),
        (Driver("580.65.06", None), "14.0", None),
    ],
)
def test_a_driver_serves_its_major_version_of_cuda_and_earlier_ones(
    driver: Driver, cuda: str, serves: bool | None
) -> None:
    assert driver.serves(cuda) is serves


@pytest.mark.parametrize(
    ("line", "cuda"),
    [
        ("cuda: Optional[str] = '13.0'", "13.0"),
        ("cuda = '12.9'", "12.9"),
        ("cuda: Optional[str] = None", None),
        ("cuda_of_another = '9.0'", None),
    ],
)
def test_torchs_cuda_is_read_from_its_files(
    line: str, cuda: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_torch(tmp_path, monkeypatch, line)
    assert torch_here() == Torch("2.13.0", cuda)


def test_the_installed_torch_states_what_it_would_say_itself() -> None:
    import torch

    found = torch_here()
    assert found is not None
    assert (found.version, found.cuda) == (torch.__version__, torch.version.cuda)


def test_an_old_driver_is_named_with_what_would_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    install_torch(tmp_path, monkeypatch, "cuda: Optional[str] = '13.0'")
    assert (driver_here(), too_old()) == (None, None)  # without nvidia-smi nothing is known
    monkeypatch.setenv("PATH", os.defpath)
    install_nvidia_smi(tmp_path / "bin", monkeypatch, head_of("535.104.05", "12.2"))
    found = too_old()
    assert found is not None
    assert found.found == "the NVIDIA driver 535.104.05 serves CUDA 12.2, and torch 2.13.0 is built for CUDA 13.0"
    assert found.remedy == "install driver 580 or a later one"
    install_torch(tmp_path / "cpu", monkeypatch, "cuda: Optional[str] = None")
    assert too_old() is None
