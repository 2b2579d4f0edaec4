"""A machine that has of the configs' models only their config.json: no card, no vLLM, no weights and no key."""

import shutil
from pathlib import Path

import pytest

from pace_async import gpus
from pace_async.advise.engines import vllm_found
from pace_async.plan.step import StepBytes, StepShape
from pace_async.runtime.start import usual_cards
from tests.support.command_line import Shell

SHAPES = Path(__file__).parents[2] / "scripts" / "documentation" / "shapes" / "models"
WEIGHTS = {"qwen3.5-4b": 4_206_000_000, "deepseek-r1-0528-qwen3-8b": 8_191_000_000}


def counted(shape: StepShape) -> StepBytes:
    """As `pace plan` counts these models, without its process, which takes a minute."""
    weights = WEIGHTS[Path(shape.model).name]
    if not shape.rows:
        return StepBytes(weights, 0, 0, 0, 0, 0, 0)
    reference = 4 * weights if shape.reference else 0
    peak = 16 * weights + reference + 8 * 2**30
    return StepBytes(weights, weights, 4 * weights, reference, 4 * weights, 8 * weights, peak)


def no_version(_: str) -> None:
    return None


@pytest.fixture
def bare_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    (tmp_path / "dev").mkdir()
    folder = tmp_path / "work"
    shutil.copytree(SHAPES, folder / "models")
    monkeypatch.setattr(gpus, "DEVICES", tmp_path / "dev")
    monkeypatch.setattr(vllm_found, "WINDOWS", tmp_path / "dev" / "dxg")
    monkeypatch.setattr(vllm_found, "_version", no_version)
    monkeypatch.setattr(usual_cards.without_cards, "__defaults__", (counted,))
    monkeypatch.setattr(usual_cards, "capacity_here", small_machine)
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return Shell(folder, monkeypatch, capsys)


def small_machine(_: object, __: Path) -> usual_cards.Capacity:
    return usual_cards.Capacity({}, host=2.0**34, disk=2.0**40)
