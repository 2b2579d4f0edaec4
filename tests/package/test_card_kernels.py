"""Kernels of a card stay out of processes that compute on the processor."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from pace_async.gpus import hide_card_kernels


def test_a_package_of_kernels_looks_as_if_it_were_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fla").mkdir()
    (tmp_path / "fla" / "__init__.py").write_text("chunk_gated_delta_rule = None")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("causal_conv1d", "fla", "mamba_ssm"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert importlib.util.find_spec("fla") is not None
    hide_card_kernels()
    assert importlib.util.find_spec("fla") is None
    with pytest.raises(ImportError):
        importlib.import_module("fla")
    for name in ("causal_conv1d", "fla", "mamba_ssm"):
        monkeypatch.delitem(sys.modules, name)


def test_a_package_that_is_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("causal_conv1d", "fla", "mamba_ssm"):
        monkeypatch.setitem(sys.modules, name, sys)
    hide_card_kernels()
    assert importlib.import_module("fla") is sys
