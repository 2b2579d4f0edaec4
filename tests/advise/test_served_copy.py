"""What vLLM starts with: the checkpoint, and a head of its own where its embeddings are tied, by any name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.tied import tied_tensors
from pace_async.advise.engines.vllm_parameter_map import HEAD, with_head
from pace_async.weights import checkpoint_digests, is_complete, record_digests, recorded_digests
from tests.support.engine_models import save_tiny_model


def llama(folder: Path) -> Path:
    return save_tiny_model(folder, seed=0, tied=True)


def qwen(folder: Path) -> Path:
    """As the learner and the ready configuration write it: a text model, whose tensors keep the names of the whole."""
    torch.manual_seed(0)
    text: dict[str, Any] = {
        "vocab_size": 300,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "layer_types": ["full_attention"],
        "tie_word_embeddings": True,
    }
    seen = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32}
    config = transformers.Qwen3_5Config(text_config=text, vision_config=seen, tie_word_embeddings=True)
    transformers.Qwen3_5ForConditionalGeneration(config).save_pretrained(folder / "whole")
    transformers.AutoModelForCausalLM.from_pretrained(folder / "whole").save_pretrained(folder)
    return folder


@pytest.mark.usefixtures("children_here")
@pytest.mark.parametrize(
    ("made", "embedding"),
    [
        pytest.param(llama, "model.embed_tokens.weight", id="llama"),
        pytest.param(qwen, "model.language_model.embed_tokens.weight", id="qwen"),
    ],
)
def test_a_tied_checkpoint_is_served_from_a_copy_with_a_separate_head(
    tmp_path: Path, made: Callable[[Path], Path], embedding: str
) -> None:
    model = made(tmp_path / "model")
    record_digests(model)
    served = serve_from(model, tmp_path / "served")
    digests, given = checkpoint_digests(served), checkpoint_digests(model)
    assert HEAD not in given
    assert digests == {**given, HEAD: given[embedding]}
    assert recorded_digests(served) is None
    assert is_complete(served)
    assert json.loads((model / "config.json").read_text())["tie_word_embeddings"] is True
    assert json.loads((served / "config.json").read_text())["tie_word_embeddings"] is False
    assert tied_tensors(served) == {}
    assert serve_from(model, tmp_path / "served") == served


def test_a_checkpoint_with_a_head_is_served_as_it_is(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model", seed=0)
    served = serve_from(model, tmp_path / "served")
    assert checkpoint_digests(served) == checkpoint_digests(model)
    assert (served / "model.safetensors").is_symlink()
    assert (served / "config.json").read_text() == (model / "config.json").read_text()


@pytest.mark.long
@pytest.mark.nightly
def test_a_model_whose_tied_tensors_are_unknown_is_refused_by_name(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model", seed=0, tied=True)
    (model / "config.json").write_text(json.dumps({"model_type": "nobody_knows_it", "vocab_size": 300}))
    with pytest.raises(ValueError, match=r"model: its tied tensors cannot be determined: .*nobody_knows_it"):
        serve_from(model, tmp_path / "served")
    assert not (tmp_path / "served").exists()


@pytest.mark.parametrize(
    ("ends", "prefix"), [(("model.embed_tokens", "lm_head"), ""), (("lm.model.embed_tokens", "lm.lm_head"), "lm.")]
)
def test_every_later_version_includes_its_head_under_a_name_of_the_model(ends: tuple[str, str], prefix: str) -> None:
    def rename(name: str) -> str:
        return f"{prefix}{name.replace('model.language_model.', 'model.')}"

    given = {"model.language_model.embed_tokens.weight": 1, "model.language_model.norm.weight": 2}
    embedding = "model.language_model.embed_tokens.weight"
    assert with_head(given, ends, rename) == ({**given, HEAD: 1}, {HEAD: embedding})
    assert with_head({**given, HEAD: 3}, ends, rename) == ({**given, HEAD: 3}, {})
    assert with_head(given, None, rename) == (given, {})
