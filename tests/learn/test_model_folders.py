"""Folders of models as people have them: what counts of them, and what a version takes over."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import torch as files

from pace_async.advise.engines.embedded import end_token_ids, load_model
from pace_async.advise.engines.served_copy import serve_from
from pace_async.learn.lineage import Lineage, Outcome
from pace_async.learn.settings import TrainerConfig
from pace_async.model_folder import contradiction, missing_file, weight_files
from pace_async.weights import checkpoint_digests
from tests.support.families import VOCAB, write_model
from tests.support.learn_toys import written_groups

load_file: Any = vars(files)["load_file"]
save_file: Any = vars(files)["save_file"]
SETTINGS = TrainerConfig(learning_rate=1e-4)
INDEX = "model.safetensors.index.json"
OTHERS = (
    *("tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.onnx", "model.onnx_data", "pytorch_model.bin"),
    *("model.gguf", "consolidated.00.pth", "model.ckpt", "64.tflite", "openvino_model.xml", "model.mlpackage", "m.pt"),
    *("pytorch_model.bin.index.json", "consolidated.safetensors"),
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", "llama")


def trained(model: Path, out: Path, settings: TrainerConfig = SETTINGS) -> Outcome:
    (out / "groups").mkdir(parents=True)
    [path] = written_groups(out / "groups", 1, vocab=VOCAB)
    lineage = Lineage(model, out / "learner", settings)
    lineage.start([])
    outcome = lineage.train(path)
    assert outcome.reason == ""
    return outcome


def with_consolidated(model: Path) -> None:
    """The same weights once more under other names, as Mistral's repositories have them."""
    weights = load_file(model / "model.safetensors")
    save_file(
        {name.replace("model.layers", "layers"): one for name, one in weights.items()},
        model / "consolidated.safetensors",
    )


def with_index(model: Path) -> None:
    """Cut the weights into two shards."""
    weights = load_file(model / "model.safetensors")
    places: dict[str, str] = {}
    for part in range(2):
        shard = f"model-{part + 1:05d}-of-00002.safetensors"
        own = {name: one for at, (name, one) in enumerate(weights.items()) if at % 2 == part}
        save_file(own, model / shard, metadata={"format": "pt"})
        places |= dict.fromkeys(own, shard)
    (model / "model.safetensors").unlink()
    (model / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


@pytest.mark.long
@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"temperature": 0.9, "top_p": 0.6}, id="sampling values without do_sample"),
        pytest.param({"do_sample": False, "temperature": 1e-6}, id="greedy with a temperature"),
        pytest.param({"num_beams": 1, "early_stopping": True, "length_penalty": 2.0}, id="beams left over"),
        pytest.param({"do_sample": True, "temperature": 0.9}, id="sound"),
        pytest.param(None, id="none"),
    ],
)
@pytest.mark.parametrize(
    "settings", [SETTINGS, TrainerConfig(learning_rate=1e-4, lora_rank=4)], ids=["whole", "adapters"]
)
def test_a_version_has_the_generation_config_of_version_0_as_it_is(
    settings: TrainerConfig, values: dict[str, object] | None, model: Path, tmp_path: Path
) -> None:
    given = model / "generation_config.json"
    given.unlink(missing_ok=True)
    if values is not None:
        given.write_text(json.dumps({"_from_model_config": False, "eos_token_id": 7, **values}))
    made = Path(trained(model, tmp_path / "out", settings).weights or "")
    written = made / given.name
    if settings.lora_rank is not None:
        assert not written.exists()  # an adapter has no files of the base
    elif values is None:
        assert not written.exists()
    else:
        assert written.read_bytes() == given.read_bytes()
        assert end_token_ids(made, load_model(made, "cpu")) == {7}


def test_a_version_and_a_checkpoint_take_over_the_tokenizer_and_no_other_librarys_weights(
    model: Path, tmp_path: Path
) -> None:
    for name in OTHERS:
        (model / name).write_bytes(b"{}")
    (model / "chat_template.jinja").write_text("{{ messages }}")
    (model / "merges.txt").write_text("")
    outcome = trained(model, tmp_path / "out")
    version = Path(outcome.weights or "")
    for made in (version, tmp_path / "out" / "learner" / "checkpoints" / "000001"):
        held = {file.name for file in made.iterdir()}
        assert held.isdisjoint(OTHERS)
        assert {"tokenizer.json", "chat_template.jinja", "merges.txt", "config.json", "model.safetensors"} <= held
    served = serve_from(model, tmp_path / "served")
    assert {file.name for file in served.iterdir()}.isdisjoint(OTHERS)


@pytest.mark.parametrize("sharded", [True, False])
def test_a_consolidated_file_beside_the_weights_does_not_count(sharded: bool, model: Path, tmp_path: Path) -> None:
    expected = checkpoint_digests(model)
    with_consolidated(model)
    if sharded:
        with_index(model)
    assert checkpoint_digests(model) == expected
    assert checkpoint_digests(serve_from(model, tmp_path / "served")) == expected
    load_model(model, "cpu")
    outcome = trained(model, tmp_path / "out")
    assert checkpoint_digests(Path(outcome.weights or "")).keys() == expected.keys()
    assert missing_file(model) == contradiction(model) == ""


def test_a_folder_says_what_it_lacks_and_what_contradicts(model: Path) -> None:
    (model / "optimizer.bin").touch()
    assert missing_file(model) == ""
    with_index(model)
    assert len(weight_files(model)) == 2
    whole = {name: tensor for file in weight_files(model) for name, tensor in load_file(file).items()}
    save_file(whole, model / "model.safetensors")
    assert "model.safetensors beside the shards" in contradiction(model)
    (model / "model.safetensors").unlink()
    weight_files(model)[1].unlink()
    assert missing_file(model) == "model-00002-of-00002.safetensors"
    for damaged in ("{", "[]", '{"weight_map": {}}', '{"weight_map": {"a": "../../b.safetensors"}}'):
        (model / INDEX).write_text(damaged)
        assert missing_file(model) == f"a whole {INDEX}"
        with pytest.raises(ValueError, match="is not a whole index"):
            checkpoint_digests(model)
    (model / INDEX).unlink()
    for shard in model.glob("*.safetensors"):
        shard.unlink()
    (model / "pytorch_model.bin").touch()
    assert missing_file(model) == "weights (*.safetensors)"
    (model / "tokenizer.json").unlink()
    (model / "tokenizer_config.json").unlink()
    assert missing_file(model) == "a tokenizer"


def test_a_sharded_checkpoint_still_notices_a_changed_optimizer(tmp_path: Path) -> None:
    """What pace wrote is compared whole, not only the weights that count."""
    model = write_model(tmp_path / "model", "llama", dtype=torch.bfloat16)
    trained(model, tmp_path / "out")
    optimizer = tmp_path / "out" / "learner" / "checkpoints" / "000001" / "optimizer.safetensors"
    data = bytearray(optimizer.read_bytes())
    data[-1] ^= 1
    optimizer.write_bytes(data)
    again = Lineage(model, tmp_path / "out" / "learner", SETTINGS)
    again.start([tmp_path / "out" / "groups" / "000001.safetensors"])
    assert again.replayed is not None
    assert again.replayed.steps == 1
