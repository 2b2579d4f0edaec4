"""A row's positions mean the same alone and beside a longer row, or the model is refused by engine and learner."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pace_async.advise.engines.embedded import load_model
from pace_async.advise.engines.slots import slot_cache
from pace_async.learn.lineage import GroupRefused, Lineage
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import load_trainer
from pace_async.row_positions import DependsOnNeighbours
from tests.support.families import write_model

SETTINGS = TrainerConfig()
LONG: dict[str, Any] = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [1.08, 2.0, 8.0, 64.0],
    "original_max_position_embeddings": 128,
    "factor": 4.0,
}
SCALINGS: dict[str, dict[str, Any]] = {
    "none": {"rope_type": "default", "rope_theta": 10000.0},
    "linear": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 128},
    "llama3": {
        "rope_type": "llama3",
        "factor": 4.0,
        "rope_theta": 10000.0,
        "original_max_position_embeddings": 128,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
    "dynamic": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
}


@pytest.mark.parametrize("family", ["llama", "phi3", "qwen2"])
def test_frequencies_that_change_with_the_longest_row_are_refused_by_engine_and_learner(
    family: str, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"original_max_position_embeddings": 128} if family == "phi3" else {}
    folder = write_model(tmp_path / "model", family, rope_parameters=LONG, **own)
    with pytest.raises(
        DependsOnNeighbours, match=r"of a row of 16 tokens \(model\.rotary_emb\) .* beside a row of 512"
    ):
        slot_cache(load_model(folder, "cpu"))
    for settings in (SETTINGS, replace(SETTINGS, lora_rank=4)):
        with pytest.raises(GroupRefused, match="would depend on what else is computed") as refused:
            Lineage(folder, tmp_path / "out", settings).start([])
        assert refused.value.setting
    load_trainer(folder, replace(SETTINGS, max_length=128), tmp_path)  # no call reaches the other frequencies


@pytest.mark.parametrize("scaling", SCALINGS)
def test_frequencies_that_do_not_change_within_the_context_are_served_and_trained(scaling: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", "llama", rope_parameters=SCALINGS[scaling])
    slot_cache(load_model(folder, "cpu"))
    load_trainer(folder, SETTINGS, tmp_path)


@pytest.mark.parametrize("family", ["granite", "mixtral", "qwen3_moe", "gpt_oss", "gemma2", "gpt2", "opt"])
def test_other_families_are_trained(family: str, tmp_path: Path) -> None:
    load_trainer(write_model(tmp_path / "model", family), SETTINGS, tmp_path)
