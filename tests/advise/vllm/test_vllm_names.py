"""What our plugin, client and publisher use of vLLM is in its source, with the same parameters and fields.

The installed vLLM is read, or the one that `PACE_VLLM_SOURCE` names: a version that cannot be installed here too.
Nothing of it is imported or run. Where the names agree the meaning may still differ: receipts and probes find that.
"""

import ast
from pathlib import Path

import pytest

from pace_async import advise
from tests.support import vllm_source as vllm

TRANSFER = "vllm.distributed.weight_transfer"
LAYERS = "vllm.model_executor.layers"
RELOAD = "vllm.model_executor.model_loader.reload"
TOKENS = "vllm.entrypoints.scale_out.token_in_token_out.protocol"
TOKENIZE = "vllm.entrypoints.serve.tokenize.protocol"

FUNCTIONS: list[tuple[str, str, list[str]]] = [
    (f"{TRANSFER}.factory", "WeightTransferEngineFactory.register_engine", ["name", "module_path_or_cls"]),
    (f"{TRANSFER}.base", "WeightTransferEngine.__init__", ["config", "vllm_config", "device", "model"]),
    (f"{TRANSFER}.base", "WeightTransferEngine.update_weights", ["update_info"]),
    (f"{TRANSFER}.nccl_engine", "NCCLWeightTransferEngine.init_transfer_engine", ["init_info"]),
    (f"{TRANSFER}.nccl_engine", "NCCLWeightTransferEngine.receive_weights", ["update_info"]),
    (f"{TRANSFER}.nccl_engine", "NCCLWeightTransferEngine.shutdown", []),
    (RELOAD, "initialize_layerwise_reload", ["model"]),
    (RELOAD, "finalize_layerwise_reload", []),  # it passes everything on to the next one
    (f"{RELOAD}.layerwise", "finalize_layerwise_processing", ["model", "model_config"]),
    (f"{RELOAD}.layerwise", "get_layerwise_info", ["layer"]),
    (f"{LAYERS}.attention", "is_deferred_attention_layer", ["layer"]),
    (f"{LAYERS}.linear", "UnquantizedLinearMethod.apply", ["layer", "x", "bias"]),
    (f"{LAYERS}.vocab_parallel_embedding", "UnquantizedEmbeddingMethod.apply", ["layer", "x", "bias"]),
    ("vllm.model_executor.models.utils", "WeightsMapper.get_rename_mapper", []),
    ("vllm.model_executor.models.utils", "WeightsMapper.map_name", ["key"]),
    ("vllm.lora.model_manager", "LoRAModelManager.list_adapters", []),
]

FIELDS: list[tuple[str, str, set[str]]] = [
    (
        f"{TRANSFER}.nccl_engine",
        "NCCLWeightTransferInitInfo",
        {"master_address", "master_port", "rank_offset", "world_size", "packed", "packed_buffer_size_bytes"},
    ),
    (f"{TRANSFER}.nccl_engine", "NCCLWeightTransferUpdateInfo", {"names", "dtype_names", "shapes"}),
    (TOKENS, "GenerateRequest", {"token_ids", "sampling_params", "model", "request_id", "stream"}),
    (TOKENS, "GenerateTokensResponse", {"request_id", "choices"}),
    (TOKENS, "GenerateTokensChoice", {"index", "finish_reason", "token_ids", "logprobs", "weight_versions"}),
    (TOKENS, "GenerateLogProbs", {"content"}),
    (TOKENS, "GenerateLogProbsContent", {"token_id", "logprob"}),
    (TOKENS, "WeightVersionSpan", {"version", "start", "end"}),
    (
        "vllm.sampling_params",
        "SamplingParams",
        {"max_tokens", "temperature", "seed", "ignore_eos", "stop_token_ids", "logprobs", "top_p", "top_k", "n"},
    ),
    (TOKENIZE, "TokenizeCompletionRequest", {"prompt", "add_special_tokens", "model"}),
    (TOKENIZE, "TokenizeChatRequest", {"messages", "add_generation_prompt", "chat_template_kwargs", "model"}),
    (TOKENIZE, "TokenizeResponse", {"count", "max_model_len", "tokens"}),
    (TOKENIZE, "DetokenizeRequest", {"tokens", "model"}),
    (TOKENIZE, "DetokenizeResponse", {"prompt"}),
    (
        "vllm.engine.arg_utils",
        "EngineArgs",
        {"weight_transfer_config", "worker_extension_cls", "logprobs_mode", "override_generation_config"}
        | {"gdn_prefill_backend", "kv_cache_memory_bytes", "gpu_memory_utilization", "max_num_seqs", "enforce_eager"}
        | {"tensor_parallel_size"}
        | {"enable_lora", "max_loras", "max_cpu_loras", "max_lora_rank", "enable_chunked_prefill", "dtype"},
    ),
]

DIVIDED: list[tuple[str, str, set[str]]] = [
    (f"{LAYERS}.linear", "LinearBase", {"tp_rank", "tp_size", "input_size", "output_size"}),
    (f"{LAYERS}.linear", "ColumnParallelLinear", {"output_size_per_partition"}),
    (f"{LAYERS}.linear", "MergedColumnParallelLinear", {"output_sizes"}),
    (
        f"{LAYERS}.linear",
        "QKVParallelLinear",
        {"total_num_heads", "total_num_kv_heads", "num_kv_head_replicas", "head_size", "v_head_size"},
    ),
    (f"{LAYERS}.linear", "RowParallelLinear", {"input_size_per_partition"}),
    (f"{LAYERS}.vocab_parallel_embedding", "VocabParallelEmbedding", {"shard_indices", "tp_size"}),
    (f"{LAYERS}.mamba.gdn.qwen_gdn_linear_attn", "QwenGatedDeltaNetAttention", {"key_dim", "value_dim"}),
    (f"{TRANSFER}.base", "WeightTransferEngine", {"parallel_config"}),
]
"""Attributes by which a rank sees which slices it holds."""

PATHS = {
    *(("get", path) for path in ("/health", "/v1/models", "/version", "/weight_info", "/is_paused")),
    *(("post", path) for path in ("/tokenize", "/detokenize", "/inference/v1/generate", "/pause", "/resume")),
    *(("post", path) for path in ("/init_weight_transfer_engine", "/start_weight_update", "/update_weights")),
    *(("post", path) for path in ("/finish_weight_update", "/collective_rpc", "/reset_prefix_cache")),
    *(("post", path) for path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter")),
}

VARIABLES = (
    "VLLM_SERVER_DEV_MODE",
    "VLLM_NO_USAGE_STATS",
    "VLLM_PLUGINS",
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE",
    "VLLM_RPC_BASE_PATH",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
)


@pytest.fixture(scope="module")
def folder() -> Path:
    found = vllm.source_folder()
    if found is None:
        pytest.skip("no vLLM is installed and PACE_VLLM_SOURCE names none")
    return found


@pytest.mark.parametrize(("module", "path", "expected"), FUNCTIONS, ids=[path for _, path, _ in FUNCTIONS])
def test_a_function_that_we_call_has_our_parameters_first(
    folder: Path, module: str, path: str, expected: list[str]
) -> None:
    owner, _, name = path.rpartition(".")
    found = vllm.defined(folder, module, owner or name)
    if owner:
        assert isinstance(found, ast.ClassDef)
        found = vllm.methods(found).get(name)
    assert isinstance(found, ast.FunctionDef)
    assert vllm.parameters(found)[: len(expected)] == expected


@pytest.mark.parametrize(("module", "name", "expected"), FIELDS, ids=[name for _, name, _ in FIELDS])
def test_a_class_has_the_fields_that_we_send_or_read(folder: Path, module: str, name: str, expected: set[str]) -> None:
    found = vllm.defined(folder, module, name)
    assert isinstance(found, ast.ClassDef)
    assert expected - vllm.fields(folder, module, found) == set()


@pytest.mark.parametrize(("module", "name", "expected"), DIVIDED, ids=[name for _, name, _ in DIVIDED])
def test_a_layer_has_the_attributes_by_which_it_is_divided(
    folder: Path, module: str, name: str, expected: set[str]
) -> None:
    found = vllm.defined(folder, module, name)
    assert isinstance(found, ast.ClassDef)
    assert expected - vllm.attributes(found) == set()


def test_our_backend_gives_every_method_that_vllm_leaves_open(folder: Path) -> None:
    base = vllm.defined(folder, f"{TRANSFER}.base", "WeightTransferEngine")
    own = vllm.parsed(Path(advise.__path__[0]) / "engines" / "vllm_file.py")
    ours = next(node for node in own.body if isinstance(node, ast.ClassDef) and node.name == "FileTransfer")
    assert isinstance(base, ast.ClassDef)
    left_open = {name: made for name, made in vllm.methods(base).items() if vllm.is_abstract(made)}
    assert len(left_open) >= 5
    given = vllm.methods(ours)
    assert left_open.keys() - given.keys() == set()
    for name, made in left_open.items():
        assert vllm.parameters(given[name]) == vllm.parameters(made), name


def test_its_servers_have_the_paths_that_we_ask(folder: Path) -> None:
    assert PATHS - vllm.served_paths(folder) == set()


def test_it_reads_the_variables_that_we_set(folder: Path) -> None:
    text = (folder / "envs.py").read_text("utf-8")
    assert [name for name in VARIABLES if f'"{name}"' not in text] == []
