"""A model that also sees: its text part is taken out once, and learner and engine work with that."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import torch as files

from pace_async.advise.engines.embedded import load_model, why_unknown
from pace_async.advise.text_part import has_more_than_text, text_bytes, text_part
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.learn.lineage import Lineage
from pace_async.learn.settings import TrainerConfig
from pace_async.plan.served import served_model
from pace_async.runtime.children.catalogue_reading import run_folder
from pace_async.runtime.children.external import refuse_unless_fit
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start.planning import plan_for
from pace_async.task import load_task
from pace_async.weights import checkpoint_digests, damage
from tests.support.chat_models import SWITCHED, VOCABULARY, qwen3_5_whole, save_chat_model
from tests.support.learn_toys import written_groups

load_file: Any = vars(files)["load_file"]
save_file: Any = vars(files)["save_file"]
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_chat_model(tmp_path_factory.mktemp("whole") / "model", SWITCHED, model=qwen3_5_whole(0))


@pytest.fixture(scope="module")
def text(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_part(whole, tmp_path_factory.mktemp("text") / "run" / "advisor")


@pytest.mark.long
@pytest.mark.nightly
def test_the_text_part_has_the_same_bits_under_its_own_names_and_nothing_else(whole: Path, text: Path) -> None:
    given, taken = checkpoint_digests(whole), checkpoint_digests(text)
    renamed = {name.replace("model.language_model.", "model."): digest for name, digest in given.items()}
    assert taken == {name: digest for name, digest in renamed.items() if "visual" not in name}
    assert any("visual" in name for name in given)
    assert damage(text) is None
    assert (text / "tokenizer.json").read_bytes() == (whole / "tokenizer.json").read_bytes()
    assert (text / "generation_config.json").read_bytes() == (whole / "generation_config.json").read_bytes()
    config = json.loads((text / "config.json").read_text())
    assert (config["architectures"], config["tie_word_embeddings"]) == (["Qwen3_5ForCausalLM"], True)
    assert has_more_than_text(whole)
    assert not has_more_than_text(text)
    assert text_bytes(whole) == sum(tensor.nbytes for tensor in load_file(text / WEIGHTS).values())


def test_the_learner_trains_the_text_part_and_the_embedded_engine_serves_it_and_its_versions(
    text: Path, tmp_path: Path
) -> None:
    (tmp_path / "groups").mkdir()
    [path] = written_groups(tmp_path / "groups", 1, vocab=VOCABULARY)
    lineage = Lineage(text, tmp_path / "learner", TrainerConfig(learning_rate=1e-3))
    lineage.start([])
    made = lineage.train(path)
    assert made.reason == ""
    version = Path(made.weights or "")
    assert checkpoint_digests(version).keys() == checkpoint_digests(text).keys()
    first, second = load_model(text, "cpu"), load_model(version, "cpu")
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert not torch.equal(first(ids).logits, second(ids).logits)


@pytest.mark.usefixtures("children_here")
def test_shards_stay_shards(whole: Path, text: Path, tmp_path: Path) -> None:
    weights = load_file(whole / WEIGHTS)
    sharded = save_chat_model(tmp_path / "model", SWITCHED, model=qwen3_5_whole(0))
    (sharded / WEIGHTS).unlink()
    places: dict[str, str] = {}
    for part in range(2):
        own = {name: one for at, (name, one) in enumerate(weights.items()) if at % 2 == part}
        save_file(own, sharded / f"part-{part}.safetensors")
        places |= dict.fromkeys(own, f"part-{part}.safetensors")
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    taken = text_part(sharded, tmp_path / "text")
    assert len(list(taken.glob("*.safetensors"))) == 2
    assert checkpoint_digests(taken) == checkpoint_digests(text)
    load_model(taken, "cpu")


@pytest.mark.usefixtures("children_here")
def test_a_run_has_its_text_part_in_its_own_folder_and_a_resume_takes_that(whole: Path, tmp_path: Path) -> None:
    config = resolve(None, {"task": "circle_packing", "advisor.model": str(whole)}, environment={})
    paths, task = RunPaths(tmp_path / "run"), load_task("circle_packing")
    folder = run_folder(config, paths, task)
    assert folder == tmp_path / "run" / "advisor"
    stamp = (folder / WEIGHTS).stat().st_mtime_ns
    assert run_folder(config, paths, task) == folder
    assert (folder / WEIGHTS).stat().st_mtime_ns == stamp


@pytest.mark.usefixtures("children_here")
@pytest.mark.parametrize(
    ("norm", "sentence"),
    [
        (None, "its files hold no tensor model.norm.weight"),
        (torch.ones(3), r"model.language_model.norm.weight has shape \[3\], and its text part \[64\]"),
        (torch.ones(64, dtype=torch.int8), "is of type I8, which cannot be trained"),
    ],
)
def test_files_that_are_not_the_text_part_are_refused_in_one_sentence(
    norm: torch.Tensor | None, sentence: str, tmp_path: Path
) -> None:
    model = save_chat_model(tmp_path / "model", SWITCHED, model=qwen3_5_whole(0))
    name = "model.language_model.norm.weight"
    held = {other: one for other, one in load_file(model / WEIGHTS).items() if other != name}
    save_file(held if norm is None else {**held, name: norm}, model / WEIGHTS)
    with pytest.raises(UsageError, match=sentence):
        text_part(model, tmp_path / "text")
    assert not (tmp_path / "text").exists()


@pytest.mark.usefixtures("children_here")
def test_a_type_that_transformers_does_not_have_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "nobody_knows_it", "text_config": {}}')
    with pytest.raises(UsageError, match=r"cannot be taken out: .*nobody_knows_it"):
        text_part(tmp_path, tmp_path / "text")


@pytest.mark.usefixtures("children_here")
def test_linear_attention_is_refused_by_the_embedded_engine_before_anything_is_written(tmp_path: Path) -> None:
    model = save_chat_model(
        tmp_path / "model", SWITCHED, model=qwen3_5_whole(0, ("linear_attention", "full_attention"))
    )
    config = resolve(None, {"task": "circle_packing", "advisor.model": str(model)}, environment={})
    with pytest.raises(UsageError, match="has layers of linear attention, which the embedded engine does not serve"):
        plan_for(config, [])
    assert why_unknown(tmp_path / "nowhere") is None


async def test_servers_that_run_already_are_not_sent_versions_of_a_part(whole: Path) -> None:
    settings = {"task": "circle_packing", "advisor.model": str(whole), "advisor.engine": "http://127.0.0.1:1"}
    with pytest.raises(UsageError, match="versions hold the text part alone"):
        await refuse_unless_fit(resolve(None, settings, environment={}), all_up=True)


def test_the_plan_counts_the_copy_of_the_text_part(whole: Path, text: Path) -> None:
    assert served_model(whole).has_more_than_text
    assert not served_model(text).has_more_than_text
