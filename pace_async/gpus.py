"""The NVIDIA cards of this machine, as its device files show them. Loads no library and starts no process.

A card has a device file of its own (`/dev/nvidia3`). The files without a number are the driver's, and a program with
any card needs them all. Parts of a card (MIG) and cards of Windows (`/dev/dxg`) are not found.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DEVICES = Path("/dev")
DRIVER = Path("/proc/driver/nvidia/gpus")
SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
LIBRARIES = (Path("/usr/local/nvidia/lib64"), Path("/usr/local/nvidia/lib"))
"""Folders in which some containers have the driver's libraries, outside the standard ones."""
HIDDEN = "-1"
_KERNELS = ("causal_conv1d", "fla", "mamba_ssm")


@dataclass(frozen=True, slots=True)
class Card:
    """`name` is its number among the cards of this machine, `node` its device file, `uuid` its name in CUDA, empty if
    the driver does not report it, and `model` its product name, such as NVIDIA H200."""

    name: str
    node: Path
    uuid: str = ""
    model: str = ""

    def is_named(self, name: str) -> bool:
        """Whether a name in CUDA_VISIBLE_DEVICES means this card."""
        return name == self.name or (name.startswith("GPU-") and self.uuid.startswith(name))


def visible_gpus(devices: Path | None = None, environment: Mapping[str, str] | None = None) -> list[str]:
    """The NVIDIA GPUs visible to a child process, as CUDA_VISIBLE_DEVICES names them. `environment`: in place of the
    variables of this process."""
    visible = (os.environ if environment is None else environment).get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", HIDDEN)]
    return [str(number) for number in range(len(_nodes(devices or DEVICES)))]


def any_card() -> bool:
    """Whether the kernel shows a card, visible to CUDA or not."""
    return bool(_nodes(DEVICES))


def find_cards(
    devices: Path | None = None, driver: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[Card, ...]:
    """The cards that are visible to this process, in the order of CUDA_VISIBLE_DEVICES, if that is set. `environment`:
    in place of the variables of this process."""
    details = _card_details(driver or DRIVER)
    nodes = _nodes(devices or DEVICES)
    cards = [Card(str(at), node, *details.get(number, ("", ""))) for at, (number, node) in enumerate(nodes)]
    visible = [card for name in visible_gpus(devices, environment) for card in cards if card.is_named(name)]
    return tuple(dict.fromkeys(visible))


def in_words(cards: Sequence[Card], environment: Mapping[str, str] | None = None) -> str:
    """The cards by device file and model, for one line, or that there is none. `environment` as in `find_cards`."""
    descriptions = [f"{card.node}{f' ({card.model})' if card.model else ''}" for card in cards]
    if not descriptions:
        variables = os.environ if environment is None else environment
        hidden = " that CUDA_VISIBLE_DEVICES shows" if "CUDA_VISIBLE_DEVICES" in variables else ""
        return f"no NVIDIA card{hidden}"
    return f"{len(descriptions)} NVIDIA card{'s' * (len(descriptions) > 1)}: {', '.join(descriptions)}"


def driver_nodes(devices: Path | None = None) -> tuple[Path, ...]:
    """The device files that belong to no card."""
    folder = devices or DEVICES
    return tuple(folder / name for name in SHARED if (folder / name).exists())


def all_nodes() -> tuple[Path, ...]:
    """The device files of all cards, visible or not, and of their driver."""
    return (*(node for _, node in _nodes(DEVICES)), *driver_nodes())


def driver_libraries() -> tuple[Path, ...]:
    """The folders outside the standard ones that hold the driver's libraries."""
    return tuple(folder for folder in LIBRARIES if (folder / "libcuda.so.1").exists())


def _nodes(devices: Path) -> Sequence[tuple[int, Path]]:
    """The device files of cards with their numbers, in order."""
    matches = ((re.fullmatch(r"nvidia(\d+)", node.name), node) for node in devices.glob("nvidia*"))
    return sorted((int(number[1]), node) for number, node in matches if number is not None)


def _card_details(driver: Path) -> dict[int, tuple[str, str]]:
    """The name in CUDA and the model of each card, by the number of its device file."""
    details: dict[int, tuple[str, str]] = {}
    for file in driver.glob("*/information"):
        try:
            pairs = (line.partition(":") for line in file.read_text(errors="replace").splitlines())
        except OSError:
            continue
        facts = {name.strip(): value.strip() for name, _, value in pairs}
        if facts.get("Device Minor", "").isdigit():
            uuid = facts.get("GPU UUID", "")
            details[int(facts["Device Minor"])] = (
                uuid if uuid.startswith("GPU-") and "?" not in uuid else "",
                facts.get("Model", ""),
            )
    return details


def hide_card_kernels() -> None:
    """Keep this process from packages of kernels that only run on a card, such as flash-linear-attention. transformers
    takes them wherever they are installed, and on tensors of the processor they end with an error. Call it before a
    model is made."""
    for name in _KERNELS:
        sys.modules.setdefault(name, None)  # pyright: ignore[reportArgumentType]
