"""The advisor in the package: its files, its tokenizer, and what it does when sampled."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pace_async.answers import parse_assess, parse_propose, parse_select
from pace_async.errors import CandidateFault

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "research"
FOLDER = ROOT / "pace_async" / "advise" / "tiny"
pytestmark = pytest.mark.timeout(600)  # sampling 160 chains takes half a minute on a quiet core, minutes on a busy one
TOKENIZER = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    command = [sys.executable, str(SCRIPTS / "advisor" / "train_tiny_advisor.py"), "--measure-only", "--json"]
    command += ["--chains", "60", "--threads", "1", "--seed", "11"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=550, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_the_weights_fit_in_the_package() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 12e6


@given(st.text(max_size=80))
def test_any_text_encodes_and_decodes_to_itself(text: str) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


def test_transformers_reads_the_same_tokenizer() -> None:
    from transformers import AutoTokenizer

    text = 'Change layout from "grid" to "hex".\n    step = 0.004\n'
    loaded = cast("Any", AutoTokenizer).from_pretrained(FOLDER)
    assert loaded(text)["input_ids"] == TOKENIZER.encode(text).ids
    assert (loaded.eos_token, loaded.pad_token) == ("</s>", "<pad>")


@pytest.mark.usefixtures("scripts")
def test_names_and_options_are_one_token_in_code_ideas_and_experiments() -> None:
    from research.advisor.tiny_advisor.worlds import real_worlds

    for world in real_worlds():
        for name, options in world.options.items():
            for option in options:
                want = [TOKENIZER.token_to_id(piece) for piece in ("Ġ" + name, "Ġ" + option)]
                texts = (
                    f"    {name} = {option}\n",
                    f"Hypothesis: {name} to {option} from old helps.",
                    f"Idea 59: {name} to {option} from",
                )
                for text in texts:
                    ids = TOKENIZER.encode(text).ids
                    assert None not in want
                    assert [token for token in ids if token in want] == want


@pytest.mark.usefixtures("scripts")
def test_the_parser_reads_every_answer_of_the_corpus() -> None:
    from research.advisor.tiny_advisor import corpus
    from research.advisor.tiny_advisor.worlds import real_worlds

    rng = random.Random(0)
    worlds = real_worlds()
    for _ in range(100):
        state = corpus.random_state(corpus.random_world(worlds, rng, 0.3, 12), rng)
        proposals = corpus.random_proposals(state, rng)
        for answer in corpus.propose_example(state, rng).answers:
            ideas = [text for text, _ in parse_propose(answer.text)]
            assert len(set(ideas)) == 3
        [verdicts] = corpus.assess_example(state, proposals).answers
        assert list(parse_assess(verdicts.text, 3, len(state.context.ideas))) == corpus.known_places(state, proposals)
        admitted = corpus.admitted_state(state, proposals)
        choices = corpus.select_example(state, proposals).answers
        assert choices
        for answer in choices:
            place, text = parse_select(answer.text, len(admitted.context.ideas))
            name, option = admitted.meaning[admitted.context.ideas[place - 1].number]
            assert text == f"{name} to {option} from {state.settings[name]}."
            assert option != state.settings[name]


@pytest.mark.usefixtures("scripts")
def test_answers_side_by_side_have_the_same_loss_as_alone() -> None:
    import torch
    from transformers import LlamaForCausalLM

    from research.advisor.tiny_advisor import corpus, training
    from research.advisor.tiny_advisor.worlds import real_worlds

    model: Any = LlamaForCausalLM.from_pretrained(FOLDER)
    probe = torch.nn.Linear(model.config.hidden_size, 8)
    rng = random.Random(1)
    example = corpus.propose_example(corpus.random_state(real_worlds()[0], rng), rng)
    together = training.row(TOKENIZER, example)
    alone = [
        training.row(TOKENIZER, corpus.Example("propose", example.prompt, (answer,))) for answer in example.answers
    ]
    with torch.inference_mode():
        one, _, _ = training.losses(model, [together, alone[0]], probe)
        many = torch.cat([training.losses(model, [row], probe)[0] for row in alone])
    assert len(example.answers) > 1
    torch.testing.assert_close(one[: len(many)], many, atol=1e-4, rtol=1e-4)


@pytest.mark.long
@pytest.mark.usefixtures("scripts")
def test_marks_agree_with_a_comparison_of_the_texts() -> None:
    from research.advisor.tiny_advisor import corpus
    from research.advisor.tiny_advisor.worlds import real_worlds

    rng = random.Random(3)
    told: set[int] = set()
    for _ in range(60):
        state = corpus.random_state(real_worlds()[0], rng)
        proposals = corpus.random_proposals(state, rng, 0.5)
        asked = corpus.assess_example(state, proposals)
        for (begin, mark), pair in zip(asked.marks[-3:], proposals, strict=True):
            assert asked.prompt[begin:].startswith(f" {pair[1]} from")
            same = [i for i, idea in enumerate(state.context.ideas, 1) if state.meaning[idea.number] == pair]
            assert [mark] == (same or [0])
        for begin, mark in asked.marks[:-3]:
            name, option = asked.prompt[:begin].split()[-2], asked.prompt[begin:].split()[0]
            assert mark == (corpus.SAME if state.settings[name] == option else corpus.OTHER)
        told |= {mark for _, mark in asked.marks}
    assert told >= {corpus.SAME, corpus.OTHER, 0, 1, 5}


@pytest.mark.long
@pytest.mark.nightly
def test_its_answers_parse(measured: dict[str, Any]) -> None:
    assert measured["figures"]["proposals that parse"] >= 0.95
    assert measured["figures"]["whole chains that parse"] >= 0.95


@pytest.mark.long
@pytest.mark.nightly
def test_its_ideas_spread_over_every_mechanism(measured: dict[str, Any]) -> None:
    assert measured["figures"]["mechanisms that occur"] == 1.0
    assert measured["figures"]["share of the commonest mechanism"] <= 0.5
    assert measured["figures"]["mechanism entropy / uniform"] >= 0.9


@pytest.mark.long
def test_its_experiments_carry_out_the_idea_on_the_parent_as_it_is(measured: dict[str, Any]) -> None:
    assert measured["figures"]["experiments right in both"] >= 0.9
    assert measured["figures"]["experiments that name the parent's setting"] >= 0.95
    assert measured["figures"]["edits that change nothing"] <= 0.1


@pytest.mark.long
def test_its_choices_lie_in_names_options_numbers_and_verdicts(measured: dict[str, Any]) -> None:
    shares = {kind: share for kind, (_, share) in measured["entropy"].items()}
    choices = ("idea: mechanism", "idea: option", "select: idea number", "assess: verdict", "assess: number")
    assert sum(shares[kind] for kind in choices) >= 0.95


@pytest.mark.usefixtures("scripts")
def test_the_measurement_sees_a_wrong_experiment() -> None:
    from research.advisor.tiny_advisor import corpus, measure
    from research.advisor.tiny_advisor.worlds import real_worlds

    rng = random.Random(2)
    [world] = real_worlds()[:1]
    state = corpus.random_state(world, rng)
    state = corpus.admitted_state(state, corpus.random_proposals(state, rng))
    pairs = [state.meaning[idea.number] for idea in state.context.ideas]
    place, (name, option) = next((k, p) for k, p in enumerate(pairs, 1) if corpus.changes(p, state.settings))
    right = f"Idea ID: {place}\nExperiment description: {name} to {option} from {state.settings[name]}."
    wrong = right.replace(f"from {state.settings[name]}", f"from {option}")
    figures = measure.Figures()
    measure.look_at_experiment(state, right, figures)
    measure.look_at_experiment(state, wrong, figures)
    assert (figures.counts["selected"], figures.counts["carried out"], figures.counts["both"]) == (2, 2, 1)
    with pytest.raises(CandidateFault):
        parse_select(right.replace(f"ID: {place}", "ID: 99999"), len(pairs))
