"""The wording for an advisor that reads catalogues: what a prompt offers, and what its numbers mean."""

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pace_async.advise.advisor import Advice, Sampling, ServedAdvisor, advise
from pace_async.advise.catalogue_prompts import answer_to_propose
from pace_async.advise.catalogue_wording import (
    ALTERNATIVES,
    MECHANISMS,
    MENU,
    MENU_ALTERNATIVES,
    CatalogueWording,
    PromptVocabulary,
    is_listed_whole,
    menu,
    present_values,
)
from pace_async.advise.wording import Detail, read_words
from pace_async.programs.languages import LANGUAGES
from pace_async.search.state import Idea, Member, SearchContext, Trial
from pace_async.task import load_task
from tests.doubles.engines import ScriptedEngine
from tests.support.fitness import UP

TASK = load_task("circle_packing")
OPTIONS = {"layout": ("rings", "hex", "spiral"), "turn": ("0", "5", "10"), "step": ("0.0", "0.002")}
BLOCK = '# EVOLVE-BLOCK-START\nlayout = "hex"  # where they start\nturn = 5\nstep = 0.001\n# EVOLVE-BLOCK-END\n'
PARENT = Member(3, BLOCK, 1.0)
POOL = (
    Idea(4, "layout to hex helps.", (Trial(1, "", "ok", 2.0),)),
    Idea(5, "turn to 0 helps.", (Trial(2, "", "ok", 0.5),)),
    Idea(6, "some other words"),
    Idea(7, "layout to rings helps.", (Trial(3, "", "timeout", None),)),
)
CONTEXT = SearchContext(PARENT, PARENT, POOL)
WORDING = CatalogueWording(OPTIONS, UP)

catalogues = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True),
    st.lists(st.integers(0, 40).map(str), min_size=2, max_size=12, unique=True).map(tuple),
    min_size=1,
    max_size=40,
)


def block(settings: Mapping[str, str]) -> str:
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    return f"# EVOLVE-BLOCK-START\n{lines}# EVOLVE-BLOCK-END\n"


def test_a_prompt_lists_the_alternatives_to_the_parent_s_settings_and_the_results_of_ideas() -> None:
    assert WORDING.propose(CONTEXT, Detail(), lambda: random.Random(0)).text == (
        "Catalogue:\n"
        "    layout = hex layout to rings layout to spiral\n"
        "    turn = 5 turn to 0 turn to 10\n"
        "    step = (other) step to 0.0 step to 0.002\n"
        "Ideas:\n"
        "    (better): layout to hex\n"
        "    (worse): turn to 0\n"
        "    (failed): layout to rings\n"
        "\nPropose three ideas.\n"
    )


def test_only_ideas_that_change_the_parent_can_be_selected_and_a_number_means_its_own_idea() -> None:
    question = WORDING.select(CONTEXT, Detail())
    assert [idea.number for idea in question.ideas] == [5, 7]
    assert "Idea ID: 1\nExperiment description: turn to 0 from 5.\n" in question.text
    assert "Idea ID: 2\nExperiment description: layout to rings from hex.\n" in question.text
    assert "to hex" not in question.text and "Idea ID: 3" not in question.text


def test_a_setting_that_the_block_assigns_twice_or_not_at_all_is_not_offered() -> None:
    program = BLOCK.replace("step = 0.001\n", "turn = 0\n")
    assert present_values(OPTIONS, program) == {"layout": "hex"}
    assert present_values(OPTIONS, "no block here") == {}


def test_present_values_are_read_from_programs_in_other_languages() -> None:
    options = {"tries": ("100", "200"), "order": ("rising", "falling")}
    program = 'const int tries = 200;\nconst std::string order = "rising";\n'
    assert present_values(options, program, LANGUAGES["c++"]) == {"tries": "200", "order": "rising"}


@pytest.mark.long
@given(catalogues, st.integers(0, 2**32), st.data())
def test_a_menu_holds_alternatives_only_and_no_more_than_are_read(
    options: dict[str, tuple[str, ...]], seed: int, data: st.DataObject
) -> None:
    settings = {name: data.draw(st.sampled_from(words)) for name, words in options.items()}
    present = present_values(options, block(settings))
    assert present == settings
    offers = menu(options, present, random.Random(seed))
    assert offers == menu(options, present, random.Random(seed))
    whole = is_listed_whole(options, {})
    assert len(offers) == (len(options) if whole else min(len(options), MENU))
    assert len(offers) <= MECHANISMS
    for offer in offers:
        assert offer.present == settings[offer.name] not in offer.options
        assert set(offer.options) <= set(options[offer.name])
        assert len(offer.options) == min(len(options[offer.name]) - 1, ALTERNATIVES if whole else MENU_ALTERNATIVES)


def test_over_many_draws_a_menu_offers_every_alternative_of_a_large_catalogue() -> None:
    options = {f"site{n}_kind": tuple(str(k) for k in range(14)) for n in range(96)}
    present = present_values(options, block(dict.fromkeys(options, "0")))
    drawn = random.Random(1)
    offered = {(o.name, option) for _ in range(1500) for o in menu(options, present, drawn) for option in o.options}
    assert offered == {(name, option) for name, words in options.items() for option in words[1:]}


def at_sites(count: int, options: tuple[str, ...] = ("a", "b", "c")) -> dict[str, tuple[str, ...]]:
    return {f"s{n} {kind}": options for n in range(count) for kind in ("width", "depth")}


def test_mechanisms_at_sites_are_listed_proposed_and_selected_by_site_and_name() -> None:
    options = at_sites(2)
    program = '# EVOLVE-BLOCK-START\ns0_width = "a"\nT = {\n    "s0_depth": "b",  # x\n    "s1_depth": "z",\n}\n'
    parent = Member(1, program + "# EVOLVE-BLOCK-END\n", 1.0)
    context = SearchContext(parent, parent, (Idea(1, "s0 depth to c helps."), Idea(2, "s0 width to a helps.")))
    wording = CatalogueWording(options, UP)
    assert wording.propose(context, Detail(), lambda: random.Random(0)).text == (
        "Catalogue:\n"
        "    s0 width = a s0 width to b s0 width to c\n"
        "    s0 depth = b s0 depth to a s0 depth to c\n"
        "    s1 depth = (other) s1 depth to a s1 depth to b s1 depth to c\n"
        "Ideas:\n    (untried): s0 depth to c\n    (untried): s0 width to a\n"
        "\nPropose three ideas.\n"
    )
    selection = wording.select(context, Detail())
    assert "Idea ID: 1\nExperiment description: s0 depth to c from b.\n" in selection.text
    assert [idea.number for idea in selection.ideas] == [1]


def test_a_menu_of_many_sites_names_each_site_once() -> None:
    options = at_sites(1000)
    present = present_values(options, block({target.replace(" ", "_"): '"a"' for target in options}))
    assert len(present) == 2000
    for seed in range(20):
        offers = menu(options, present, random.Random(seed))
        assert len({offer.name.split()[0] for offer in offers}) == len(offers) == MENU


@given(st.integers(2, 9), st.integers(0, 2**32))
@example(2, 128)  # beside all seven ideas nothing can be offered
def test_no_prompt_holds_two_words_that_share_an_entry_and_answers_are_read_as_they_are_meant(
    entries: int, seed: int
) -> None:
    draw = random.Random(seed)
    options = at_sites(60, tuple(f"o{n}" for n in range(30)))
    shared = {f"s{n}": f"name_{n % entries}" for n in range(60)} | {f"o{n}": f"value_{n % 12}" for n in range(30)}
    settings = {target.replace(" ", "_"): f'"o{draw.randrange(30)}"' for target in options}
    ideas = tuple(
        Idea(number, f"{draw.choice(list(options))} to o{draw.randrange(30)} helps.") for number in range(1, 8)
    )
    parent = Member(1, block(settings), 1.0)
    context = SearchContext(parent, parent, ideas)
    wording = CatalogueWording(options, UP, None, shared)
    asked = wording.propose(context, Detail(), lambda: random.Random(seed))
    lines = [line for line in asked.text.splitlines() if " = " in line]
    assert lines and not any(word in shared for word in asked.text.split())
    for line in lines:
        target, _, rest = read_words(line, asked.words).strip().partition(" = ")
        assert settings[target.replace(" ", "_")] == f'"{rest.split()[0]}"'
        for pair in rest.split(f" {target} to ")[1:]:
            assert pair in options[target]
    assert f"({'untried'}): {ideas[-1].description.removesuffix(' helps.')}" in read_words(asked.text, asked.words)
    chosen = wording.select(context, Detail())
    for number, idea in enumerate(chosen.ideas, start=1):
        name, option = idea.description.removesuffix(" helps.").split(" to ")
        told = f"Idea ID: {number}\nExperiment description: {name} to {option} from "
        assert told in read_words(chosen.text, chosen.words)


def test_the_row_of_a_call_says_what_its_words_stand_for() -> None:
    options = at_sites(9)
    parent = Member(0, block({target.replace(" ", "_"): '"a"' for target in options}), 1.0)
    wording = CatalogueWording(options, UP, None, {f"s{n}": f"name_{n % 8}" for n in range(9)})
    engine = ScriptedEngine(answer_to_propose([("name_3 width", "b")] * 3), "nonsense")

    async def main() -> Advice:
        context = SearchContext(parent, parent, ())
        advisor = ServedAdvisor(engine)
        return await advise(advisor, wording, context, lease=1, sampling=Sampling(seed=1))

    call = anyio.run(main).calls[0]
    assert call.words["name_3"] == "s3" and len(call.words) == MENU
    assert "s3 width to b helps." in call.text and "name_3" not in call.text


def test_a_word_that_shares_an_entry_keeps_others_out_only_while_it_is_in_the_prompt() -> None:
    words = PromptVocabulary({"s1": "name_1", "s9": "name_1"})
    assert words.add("s1 width", "a") and words.add("s1 depth", "b")
    assert not words.add("s9 width") and words.fit("s2 width")
    assert words.meant == {"name_1": "s1"}
    assert not PromptVocabulary({"s1": "name_1", "s9": "name_1"}).fit("s1 width", "s9")


def test_the_menu_of_a_rollout_is_derived_from_the_run_and_the_lease() -> None:
    options = {f"m{n}": ("0", "1") for n in range(60)}
    parent = Member(0, block(dict.fromkeys(options, "0")), 1.0)

    def prompt(seed: int, lease: int) -> str:
        engine = ScriptedEngine("nonsense")
        sampling, context = Sampling(seed=seed), SearchContext(parent, parent, ())

        async def main() -> None:
            await advise(
                ServedAdvisor(engine),
                CatalogueWording(options, UP),
                context,
                lease=lease,
                sampling=sampling,
            )

        anyio.run(main)
        return engine.prompts[0]

    assert prompt(1, 1) == prompt(1, 1)
    assert len({prompt(1, 1), prompt(1, 2), prompt(2, 1)}) == 3


def test_whether_an_idea_is_known_is_compared_in_code_whatever_the_advisor_says() -> None:
    proposed = answer_to_propose([("turn", "0"), ("turn", "10"), ("turn", "10")])
    said = "Proposal 1: new\nProposal 2: known 1\nProposal 3: new"
    engine = ScriptedEngine(proposed, said, "Idea ID: 3\nExperiment description: turn to 10 from 5.")

    async def main() -> Advice:
        sampling = Sampling(seed=1, ideas_kept=5)
        return await advise(ServedAdvisor(engine), WORDING, replace(CONTEXT, next_idea=8), lease=1, sampling=sampling)

    advice = anyio.run(main)
    assert [(note.number, note.known) for note in advice.notes] == [(5, True), (8, False), (8, True)]
    assert "Proposal 1: known 2\nProposal 2: new\nProposal 3: new\n" in engine.prompts[1]
    assert (advice.idea, advice.experiment) == (8, "turn to 10 from 5.")


def test_a_prompt_that_is_too_long_leaves_out_the_ideas_used_least_recently() -> None:
    detail = Detail()
    left = [len(POOL)]
    while (less := WORDING.shorter(CONTEXT, [], detail)) is not None:
        detail = less
        left.append(len(WORDING.assess(CONTEXT, [], detail).ideas))
    assert left == [4, 3, 2, 1]


def test_a_prompt_may_name_the_mechanism_first_and_ideas_are_read_in_both_orders() -> None:
    options = at_sites(2)
    parent = Member(0, block({target.replace(" ", "_"): '"a"' for target in options}), 1.0)
    pool = (Idea(1, "width s1 to b helps.", (Trial(1, "", "ok", 2.0),)), Idea(2, "s0 width to c helps."))
    context = SearchContext(parent, parent, pool)
    site, mechanism = (CatalogueWording(options, UP, mechanism_first=first) for first in (False, True))
    draw = partial(random.Random, 0)
    as_given, turned = (wording.propose(context, Detail(), draw).text for wording in (site, mechanism))
    assert "    s0 width = a s0 width to b" in as_given
    assert "    width s0 = a width s0 to b" in turned
    assert "    (better): s1 width to b\n    (untried): s0 width to c" in as_given
    assert "    (better): width s1 to b\n    (untried): width s0 to c" in turned
    for wording, idea in product((site, mechanism), ("s1 width to b helps.", "width s1 to b helps.")):
        assert wording.read_only(context, f"Idea 1\nHypothesis: {idea}") == (idea, "s1 width to b from a.")
    assert mechanism.select(context, Detail()).text == site.select(context, Detail()).text


def test_a_name_that_is_a_target_in_both_orders_means_the_one_that_the_prompt_named() -> None:
    options = {"left right": ("a", "b"), "right left": ("a", "b")}
    parent = Member(0, block({"left_right": '"a"', "right_left": '"a"'}), 1.0)
    context = SearchContext(parent, parent, ())
    site, mechanism = (CatalogueWording(options, UP, mechanism_first=first) for first in (False, True))
    asked = "Idea 1\nHypothesis: left right to b helps."
    assert site.read_only(context, asked)[1] == "left right to b from a."
    assert mechanism.read_only(context, asked)[1] == "right left to b from a."
