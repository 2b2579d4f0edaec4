"""Which tokens of an answer belong to which idea, and how much of the advantage they get."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from pace_async.advise.binding import bound_tokenizer
from pace_async.advise.catalogue_prompts import answer_to_propose
from pace_async.learn.correction import Correction
from pace_async.learn.credit import decoder_of, ideas_of_tokens, shares_of
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import load_trainer
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.runtime.children.advisor_folder import READER
from scripts.benchmarks.toys import write_llama
from tests.support.chat_models import SWITCHED, TURNS, tokenizer_of
from tests.support.learn_toys import gradient_of

MARK = "</think>"
PARTS = tuple(f"Idea {n}\nHypothesis: h{n} helps.\nReasoning: r{n}.\n" for n in (1, 2, 3))


def as_bytes(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def of_bytes(ids: Sequence[int]) -> str:
    return bytes(ids).decode(errors="replace")


@pytest.mark.parametrize(
    "before",
    [
        "",
        "Here are my ideas.\n\n",
        "Idea 1\nHypothesis: an earlier thought\nIdea 2</think>\n",
        "Größe zuerst.\n",
    ],
)
def test_a_token_belongs_to_the_idea_in_whose_part_it_ends(before: str) -> None:
    ids = as_bytes(before + "".join(PARTS))
    expected = [0] * len(as_bytes(before))
    for number, part in enumerate(PARTS, start=1):
        expected += [number] * len(as_bytes(part))
    assert ideas_of_tokens(ids, of_bytes, MARK) == expected


def test_bytes_of_a_character_at_the_end_of_an_idea_belong_to_it() -> None:
    """A decoder with byte fallback gives each byte of an unfinished character one character of its own."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    tokenizer = cast("Any", Tokenizer)(cast("Any", models).BPE(vocabulary, [], byte_fallback=True))
    tokenizer.decoder = cast("Any", decoders).Sequence([decoders.ByteFallback(), decoders.Fuse()])
    first, second = "Idea 1\nHypothesis: a\nReasoning: b 🙂🙂\n", "Idea 2\nHypothesis: c\nReasoning: d"
    ideas = ideas_of_tokens(as_bytes(first + second), lambda some: tokenizer.decode(list(some)), MARK)
    assert ideas == [1] * len(as_bytes(first)) + [2] * len(as_bytes(second))


def test_titles_and_marks_of_a_chat_model_begin_an_idea_as_they_do_for_the_parser() -> None:
    text = "**Idea 1:**\nHypothesis: a\nReasoning: b\n\n### Idea 2: the second\n\nHypothesis: c\nReasoning: d"
    second = text.index("###")
    assert ideas_of_tokens(as_bytes(text), of_bytes, MARK) == [1] * second + [2] * (len(text) - second)


def test_the_advisor_of_the_package_writes_ideas_whose_tokens_are_told_apart() -> None:
    options = {"column1 runs_coder": ("rice", "huffman"), "column2 ids_map": ("zigzag",)}
    tokenizer = cast("Any", Tokenizer).from_str(bound_tokenizer(READER, options))
    whole = cast("Any", PreTrainedTokenizerFast)(tokenizer_object=tokenizer)
    text = answer_to_propose([(name, option) for name, each in options.items() for option in each])
    ids = whole(text, add_special_tokens=False)["input_ids"]
    ideas = ideas_of_tokens(ids, lambda some: whole.decode(some, skip_special_tokens=True), MARK)
    assert ideas == sorted(ideas)
    parts = [whole.decode([token for token, idea in zip(ids, ideas, strict=True) if idea == n]) for n in (1, 2, 3)]
    assert all(f"Idea {n}" in part for n, part in enumerate(parts, start=1))
    assert "".join(parts) == text


@pytest.mark.parametrize("special", [True, False], ids=["special", "plain"])
def test_ideas_are_found_after_the_end_of_thinking_whatever_kind_of_token_it_is(special: bool) -> None:
    tokenizer = tokenizer_of(SWITCHED, special)
    thought = tokenizer.encode("".join(PARTS) + "No.</think>", add_special_tokens=False)
    parts = [tokenizer.encode(part, add_special_tokens=False) for part in (*PARTS[:2], PARTS[2] + TURNS[SWITCHED])]
    ids = [*thought, *(token for part in parts for token in part)]
    ideas = ideas_of_tokens(ids, decoder_of(tokenizer, MARK), MARK)
    assert ideas == [0] * len(thought) + [number for number, part in enumerate(parts, start=1) for _ in part]


def test_an_unknown_token_is_no_end_of_thinking() -> None:
    """A tokenizer without the mark may read it as its unknown token, which is special too."""
    vocabulary = {"[UNK]": 0, "Idea": 1}
    tokenizer = cast("Any", Tokenizer)(cast("Any", models).WordLevel(vocabulary, unk_token="[UNK]"))
    whole = cast("Any", PreTrainedTokenizerFast)(tokenizer_object=tokenizer, unk_token="[UNK]")
    assert whole.encode("</think>", add_special_tokens=False) == [0]
    assert decoder_of(whole, MARK)([1, 0, 1]) == "Idea Idea"


def rollout(lease: int, text: str, carried_out: tuple[int, ...] | None) -> TrainedRollout:
    ids = as_bytes(text)
    calls = tuple(TrainedCall((5, 6), ids, (-5.5,) * len(ids), (0,) * len(ids)) for _ in range(2))
    return TrainedRollout(lease, 1.0 - lease, 0.0, calls, carried_out)


def group(*rollouts: TrainedRollout) -> Group:
    return Group(1, 0, "grpo", 0.0, 0, rollouts)


def test_ideas_that_were_not_carried_out_get_their_share_and_all_else_the_whole_advantage() -> None:
    text = "".join(PARTS)
    lengths = [len(part) for part in PARTS]
    shares = shares_of(
        group(rollout(1, text, (2,)), rollout(2, text, ()), rollout(3, text, None), rollout(4, "no idea", (1,))),
        of_bytes,
        0.25,
        MARK,
    )
    assert shares == {
        1: [0.25] * lengths[0] + [1.0] * lengths[1] + [0.25] * lengths[2],
        2: [0.25] * len(text),
        4: [1.0] * len("no idea"),
    }
    assert shares_of(group(rollout(1, text, (2,))), of_bytes, 1.0, MARK) == {}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=256, width=32, layers=2)


@pytest.mark.parametrize("micro_tokens", [60, 10_000])
def test_the_gradient_is_that_of_the_shares_of_each_tokens_advantage(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, micro_tokens: int
) -> None:
    """The gradient is linear in the advantages: tokens at a share of a quarter are a quarter of the way from the
    gradient in which they count nothing to the one in which they count whole."""
    text = "".join(PARTS)
    given = group(rollout(2, text, (3,)), rollout(3, text, ()))
    settings = TrainerConfig(micro_tokens=micro_tokens, correction=Correction("decoupled", cap=None))
    found: dict[float, dict[str, torch.Tensor]] = {}
    for share in (0.0, 0.25, 1.0):
        trainer = load_trainer(toy, replace(settings, other_ideas=share), tmp_path / str(share))
        monkeypatch.setattr(trainer, "_text", of_bytes)
        trainer.accumulate(given)
        found[share] = {name: gradient_of(weight).clone() for name, weight in trainer.policy.named_parameters()}
    for name, quarter in found[0.25].items():
        none, whole = found[0.0][name], found[1.0][name]
        torch.testing.assert_close(quarter, none + (whole - none) / 4, atol=1e-6, rtol=1e-4)
    assert any(not torch.allclose(found[0.0][name], whole) for name, whole in found[1.0].items())
