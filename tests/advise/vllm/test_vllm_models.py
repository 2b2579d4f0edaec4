"""Whether the installed vLLM knows a model, read from its source and asked of transformers."""

import json
from pathlib import Path
from typing import Any

import pytest

from pace_async.advise.engines import vllm_models
from pace_async.advise.engines.vllm_models import fits_generic_model, why_unknown
from tests.support import vllm_source
from tests.support.stand_in_machine import fits_never, install_vllm

REGISTRY = """
raise RuntimeError("only read")
_TEXT_GENERATION_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
}
_MULTIMODAL_MODELS: dict[str, tuple[str, str]] = {
    "Qwen3_5ForConditionalGeneration": ("qwen3_5", "Qwen3_5ForConditionalGeneration"),
}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_MULTIMODAL_MODELS}
_PREVIOUSLY_SUPPORTED_MODELS = {"XverseForCausalLM": "0.23.0"}
"""
SHAPES = Path(__file__).parents[3] / "scripts" / "documentation" / "shapes" / "models"


def config(folder: Path, **fields: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({"model_type": "any", **fields}))
    return folder


@pytest.fixture(autouse=True)
def only_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in has the name of the CUDA build, so a CPU build that is installed too is not asked."""
    monkeypatch.setattr(vllm_models, "PACKAGES", ("vllm",))


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """vLLM with a short list, in an environment where transformers knows no further class that fits."""
    install_vllm(tmp_path / "packages", monkeypatch, REGISTRY)
    monkeypatch.setattr(vllm_models, "fits_generic_model", fits_never)
    return tmp_path


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, None),
        ({"architectures": ["Other", "Qwen3_5ForConditionalGeneration"]}, None),
        ({"architectures": ["LlamaForCausalLM"], "auto_map": {"AutoModel": "own.Llama"}}, None),
        ({}, None),
        ({"architectures": None}, None),
        ({"architectures": ["MyModel"]}, "vLLM 0.32.0 does not know MyModel, the architecture in its config.json"),
        (
            {"architectures": ["MyModel"], "auto_map": {"AutoModelForCausalLM": "modeling_my.MyModel"}},
            "vLLM 0.32.0 does not know MyModel, the architecture in its config.json, which is code of its own folder "
            "(auto_map)",
        ),
        (
            {"architectures": ["XverseForCausalLM"]},
            "vLLM 0.32.0 does not know XverseForCausalLM, the architecture in its config.json, since vLLM 0.23.0 was "
            "the last one that served it",
        ),
    ],
)
def test_an_architecture_outside_the_list_is_named(lists: Path, fields: dict[str, Any], why: str | None) -> None:
    assert why_unknown(config(lists, **fields), ()) == why


@pytest.mark.parametrize("argument", ["--trust-remote-code", "--model-impl=transformers", "--hf_overrides={}"])
def test_arguments_with_which_vllm_knows_more_are_left_to_vllm(lists: Path, argument: str) -> None:
    folder = config(lists, architectures=["MyModel"])
    assert why_unknown(folder, ["--max-model-len=512"]) is not None
    assert why_unknown(folder, [argument]) is None


@pytest.mark.parametrize("fits", [True, None])
def test_a_class_of_transformers_that_fits_or_is_not_found_out_is_not_refused(
    lists: Path, monkeypatch: pytest.MonkeyPatch, fits: bool | None
) -> None:
    def said(_: str) -> bool | None:
        return fits

    monkeypatch.setattr(vllm_models, "fits_generic_model", said)
    assert why_unknown(config(lists, architectures=["MyModel"]), ()) is None


@pytest.mark.parametrize("registry", ["", "_VLLM_MODELS = made()", "def broken("])
def test_a_list_that_cannot_be_read_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: str
) -> None:
    install_vllm(tmp_path / "packages", monkeypatch, registry)
    assert why_unknown(config(tmp_path, architectures=["MyModel"]), ()) is None


def test_transformers_has_no_class_of_an_invented_name() -> None:
    assert fits_generic_model("MyModelForCausalLM") is False


@pytest.mark.long
@pytest.mark.nightly
def test_a_class_of_transformers_fits_vllms_generic_model() -> None:
    assert fits_generic_model("LlamaForCausalLM") is True


def test_the_real_list_has_the_models_of_the_ready_configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = vllm_source.source_folder()
    if folder is None:
        pytest.skip("no vLLM is installed and PACE_VLLM_SOURCE names none")
    registry = (folder.parent / vllm_models.LIST).read_text("utf-8")
    install_vllm(tmp_path / "packages", monkeypatch, registry)
    monkeypatch.setattr(vllm_models, "fits_generic_model", fits_never)
    for shape in SHAPES.iterdir():
        assert why_unknown(shape, ()) is None
    assert why_unknown(config(tmp_path, architectures=["LlamaForCausalLM"]), ()) is None
    assert why_unknown(config(tmp_path, architectures=["MyModel"]), ()) is not None
    assert "0.23.0" in str(why_unknown(config(tmp_path, architectures=["XverseForCausalLM"]), ()))
