"""Weights to be published."""

from pathlib import Path

import pytest
import torch

from pace_async.weights import write_atomically
from tests.support.tensor_files import save_file


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2)}
    write_atomically(tmp_path / "weights", lambda folder: save_file(tensors, folder / "model.safetensors"))
    return tmp_path / "weights"
