"""The advisor that reads catalogues: binding, its tokenizer, its training, and what it does when sampled."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from tokenizers import Tokenizer

from pace_async.advise.binding import MARKER, bound_folder, bound_tokenizer, slots_of, spare_entries
from pace_async.advise.catalogue_wording import CatalogueWording
from pace_async.advise.wording import Detail
from pace_async.answers import parse_assess, parse_propose, parse_select
from pace_async.errors import UsageError
from pace_async.runtime.children.advisor_folder import PACKAGED, READER
from research.advisor.catalogue_reader import architecture, corpus, training
from research.advisor.catalogue_reader import tokenizer as tokenizers_of_reader
from research.advisor.catalogue_reader.measure import (
    BUNDLED,
    bundled_options,
    many_options,
    random_context,
    sites_options,
)
from tests.support.fitness import UP

ROOT = Path(__file__).parents[2]
TOKENIZER = Tokenizer.from_file(str(READER / "tokenizer.json"))


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, float]]:
    command = [sys.executable, str(ROOT / "research" / "advisor" / "train_catalogue_reader.py"), "--measure-only"]
    command += ["--json", "--chains", "40", "--threads", "1", "--seed", "11"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_the_advisors_of_the_package_fit_in_twelve_megabytes() -> None:
    assert sum(file.stat().st_size for folder in PACKAGED.values() for file in folder.iterdir()) <= 12e6


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    with cast("Any", safe_open)(folder / "model.safetensors", "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@given(st.text(max_size=80))
def test_any_text_encodes_and_decodes_to_itself(text: str) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("task", BUNDLED)
def test_every_word_of_a_bound_catalogue_is_one_token_in_every_question(task: str) -> None:
    options = bundled_options(task)
    reader: Any = cast("Any", Tokenizer).from_str(bound_tokenizer(READER, options))
    wording, rng = CatalogueWording(options, UP), random.Random(3)
    wordings = {*tokenizers_of_reader.wordings(), "\n", ".", ""}
    for _ in range(20):
        context = random_context(options, rng)
        texts = [idea.description for idea in context.ideas]
        questions = (
            wording.propose(context, Detail(), lambda: rng),
            wording.assess(context, texts[:3], Detail()),
            wording.select(context, Detail()),
        )
        for question in questions:
            pieces = [reader.decode([token]) for token in reader.encode(question.text).ids]
            assert "".join(pieces) == question.text
            words = {piece.removeprefix(" ") for piece in pieces if piece not in wordings}
            assert words <= {*options, *(word for known in options.values() for word in known)}


def test_a_run_s_folder_has_its_own_tokenizer_and_writes_no_spare_entry(tmp_path: Path) -> None:
    options = bundled_options("circle_packing")
    folder = bound_folder(READER, options, tmp_path / "run" / "advisor")
    given, bound = weights_of(READER), weights_of(folder)
    entries = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    spare = [number for entry, number in entries.items() if entry.startswith(("Ġname_", "Ġvalue_"))]
    head = given["lm_head.weight"].clone()
    head[spare] = head[entries["<pad>"]].clone()
    entries_spare = spare_entries(READER)
    assert entries_spare is not None and len(spare) == entries_spare.names + entries_spare.values - 12 - 39
    assert all(torch.equal(bound[name], weights) for name, weights in (given | {"lm_head.weight": head}).items())
    before = json.loads((READER / "tokenizer.json").read_text())["model"]["vocab"]
    after = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    assert sorted(before.values()) == sorted(after.values())
    assert {entry for entry in after if entry not in before} == {
        f"Ġ{word}" for word in {*options, *(word for known in options.values() for word in known)}
    }
    assert bound_folder(READER, options, folder) == folder


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"m": ("to", "fro")}, "its prompts use the word to themselves"),
        ({"m": ("a", "b-")}, "b- is not a plain word"),
        ({"m": tuple(f"value_{n}" for n in range(10_000))}, "its prompts use the word value_0 themselves"),
    ],
)
def test_a_catalogue_that_cannot_be_read_is_refused_in_one_sentence(
    options: dict[str, tuple[str, ...]], says: str
) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        bound_tokenizer(READER, options)
    assert "\n" not in str(refused.value)


def test_of_a_large_catalogue_words_share_entries_and_mechanisms_at_sites_keep_their_own(tmp_path: Path) -> None:
    options = sites_options(random.Random(4), 1000)
    spare = spare_entries(READER)
    slots = slots_of(READER, options)
    assert spare is not None and slots == slots_of(READER, options)
    assert {target.split()[1] for target in options} <= slots.own.keys()
    assert slots.shared.keys() == {target.split()[0] for target in options}
    named = {entry for entry in (*slots.own.values(), *slots.shared.values()) if entry.startswith("name_")}
    assert len(named) == spare.names and not set(slots.own.values()) & set(slots.shared.values())
    folder = bound_folder(READER, options, tmp_path / "advisor")
    entries = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    given, bound = weights_of(READER)["lm_head.weight"], weights_of(folder)["lm_head.weight"]
    shared = [entries[f"Ġ{entry}"] for entry in set(slots.shared.values())]
    assert torch.equal(given[shared], bound[shared])


def test_ten_thousand_options_are_bound(tmp_path: Path) -> None:
    options = many_options(random.Random(4))
    assert sum(map(len, options.values())) == 10_000
    slots = slots_of(READER, options)
    assert len(slots.shared) == 10_000 and slots.own.keys() == options.keys()
    bound_tokenizer(READER, options)


def test_a_folder_says_whether_its_model_reads_catalogues(tmp_path: Path) -> None:
    assert spare_entries(PACKAGED["tiny"]) is None
    (tmp_path / MARKER).write_text("[3]")
    with pytest.raises(UsageError, match="damaged"):
        spare_entries(tmp_path)


def test_the_parser_can_read_the_whole_corpus() -> None:
    rng = random.Random(0)
    for _ in range(60):
        drawn = corpus.random_catalogue(rng, 14)
        known = {offer.name: offer for offer in drawn.listed}
        for answer in corpus.propose_example(drawn, rng).answers:
            for text, _ in parse_propose(answer.text):
                name, option = text.removesuffix(" helps.").split(" to ")
                assert option in known[name].options
        selection = corpus.select_example(drawn, rng)
        for answer in selection.answers:
            place, text = parse_select(answer.text, 9)
            assert f"Idea ID: {place}\nExperiment description: {text}\n" in selection.prompt
        assessed = corpus.assess_example(rng)
        for answer in assessed.answers:
            assert len(parse_assess(answer.text, 3, 9)) == 3
            assert answer.text in assessed.prompt


def test_answers_side_by_side_cost_what_they_cost_alone() -> None:
    rng = random.Random(1)
    model = architecture.first_model(TOKENIZER, 0)
    rows = training.Rows(TOKENIZER)
    example = corpus.propose_example(corpus.random_catalogue(rng, 5), rng)
    alone = [rows.row(corpus.Example(example.prompt, (answer,))) for answer in example.answers]
    with torch.inference_mode():
        together, _, _ = training.losses(model, [rows.row(example), alone[0]])
        each = torch.cat([training.losses(model, [row])[0] for row in alone])
    torch.testing.assert_close(together[: len(each)], each, atol=1e-4, rtol=1e-4)


def test_a_training_in_parts_ends_at_the_weights_of_one_that_was_never_stopped(tmp_path: Path) -> None:
    recipe = training.Recipe(steps=3, batch=1, warmup=2)

    def trained(leg: Path, *ends: int) -> dict[str, torch.Tensor]:
        model = architecture.first_model(TOKENIZER, 0)
        done = [training.train(model, TOKENIZER, recipe, leg, lambda _: None, 10, until=end) for end in ends]
        assert done == [end == recipe.steps for end in ends]
        return cast("Any", model).state_dict()

    whole, legs = trained(tmp_path / "whole.pt", 3), trained(tmp_path / "legs.pt", 1, 3)
    assert whole.keys() == legs.keys()
    for name, weights in whole.items():
        torch.testing.assert_close(weights, legs[name], atol=1e-6, rtol=1e-5)


@pytest.mark.timeout(700)
@pytest.mark.long
@pytest.mark.nightly
def test_its_answers_parse_and_its_ideas_exist_on_catalogues_never_seen(measured: dict[str, dict[str, float]]) -> None:
    for kind, shares in measured.items():
        assert shares["proposals that parse"] >= 0.95, kind
        assert shares["ideas that exist"] >= 0.92, kind


@pytest.mark.timeout(700)
@pytest.mark.long
@pytest.mark.nightly
def test_its_chains_end_in_an_experiment_that_changes_the_parent(measured: dict[str, dict[str, float]]) -> None:
    for kind, shares in measured.items():
        assert shares["good chains"] >= 0.9, kind


@pytest.mark.timeout(700)
@pytest.mark.long
@pytest.mark.nightly
def test_its_ideas_spread_over_mechanisms(measured: dict[str, dict[str, float]]) -> None:
    for kind, shares in measured.items():
        assert shares["entropy over mechanisms"] >= 0.9, kind
