"""The catalog implementer: exactly one named edit, applied to the parent, or the candidate's own fault."""

from pathlib import Path

import pytest

from pace_async.errors import CandidateFault, UsageError
from pace_async.implement.base import Experiment
from pace_async.implement.catalogue import (
    CatalogImplementer,
    Catalogue,
    MechanismEdit,
    apply_edit,
    find_edit,
    load_catalogue,
)
from pace_async.search.state import Member
from pace_async.task import load_task, split_block

CATALOGUE = Catalogue.model_validate(
    {
        "mechanisms": [
            {"name": "layout", "about": "where it starts", "options": ["grid", "hex"]},
            {"name": "step", "about": "how far", "options": [0.01, 0.1, 1]},
        ]
    }
)
BLOCK = 'layout = "grid"  # where\nstep = 0.1\n'


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ('Change layout from "grid" to "hex".', MechanismEdit("layout", "hex")),
        ("step to 0.01 from 0.1.", MechanismEdit("step", 0.01)),
        ("set the step to 1", MechanismEdit("step", 1)),
    ],
)
def test_a_sentence_that_names_one_mechanism_and_one_option_is_an_edit(text: str, edit: MechanismEdit) -> None:
    assert find_edit(CATALOGUE, text) == edit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Make it better.",
        "Change layout to round.",
        "Change layout and step to 1.",
        "Change the stepping to 1.",
        "Change layout from hex.",
        "layout to hex or to grid",
    ],
)
def test_a_sentence_that_names_none_or_several_is_not_implemented(text: str) -> None:
    with pytest.raises(CandidateFault) as caught:
        find_edit(CATALOGUE, text)
    assert caught.value.kind == "not_implemented"


def test_an_edit_replaces_one_literal_and_keeps_the_comment() -> None:
    assert apply_edit(BLOCK, MechanismEdit("layout", "hex")) == 'layout = "hex"  # where\nstep = 0.1\n'
    assert apply_edit(BLOCK, MechanismEdit("step", 1)) == 'layout = "grid"  # where\nstep = 1\n'


SITES = Catalogue.model_validate(
    {
        "sites": ["sensor1", "sensor3"],
        "mechanisms": [
            {"name": "predictor", "about": "what is subtracted", "options": ["none", "lag1"]},
            {"name": "level", "about": "how hard", "options": [1, 9], "sites": ["all"]},
        ],
    }
)


def test_a_mechanism_at_sites_is_edited_at_the_one_site_that_is_named() -> None:
    edit = find_edit(SITES, "set sensor3 predictor to lag1")
    assert (
        edit == MechanismEdit("predictor", "lag1", "sensor3") == find_edit(SITES, "sensor3 predictor to lag1 from x.")
    )
    table = 'T = {\n    "sensor1_predictor": "none",\n    "sensor3_predictor": "none",  # far\n}\n'
    assert apply_edit(table, edit) == table.replace('"none",  #', '"lag1",  #')
    lines = 'sensor1_predictor = "none"\nsensor3_predictor = f(2)\n'
    assert apply_edit(lines, edit) == 'sensor1_predictor = "none"\nsensor3_predictor = "lag1"\n'
    assert find_edit(SITES, "all level to 9") == MechanismEdit("level", 9, "all")
    assert list(SITES.targets) == ["sensor1 predictor", "sensor3 predictor", "all level"]
    assert len(list(SITES.edits())) == 6 and MechanismEdit("predictor", "none", "sensor1") in SITES.edits()


@pytest.mark.parametrize(
    "text", ["predictor to lag1", "sensor2 predictor to lag1", "sensor1 and sensor3 predictor to lag1", "all to lag1"]
)
def test_an_experiment_that_names_no_site_of_the_mechanism_or_several_is_not_implemented(text: str) -> None:
    with pytest.raises(CandidateFault) as caught:
        find_edit(SITES, text)
    assert caught.value.kind == "not_implemented"


@pytest.mark.parametrize("block", ["", "step = 1\nstep = 2\n", "stepper = 1\n"])
def test_a_parent_that_does_not_assign_the_name_once_is_refused(block: str) -> None:
    with pytest.raises(CandidateFault):
        apply_edit(block, MechanismEdit("step", 0.01))


async def test_an_edit_that_changes_nothing_is_the_candidate_s_fault() -> None:
    task = load_task("circle_packing")
    implementer = CatalogImplementer(task)
    assert task.catalogue_path is not None
    mechanism = load_catalogue(task.catalogue_path).mechanisms[0]
    block = split_block(task.program)[1]
    same = next(o for o in mechanism.options if apply_edit(block, MechanismEdit(mechanism.name, o)) == block)
    other = next(o for o in mechanism.options if o != same)
    parent = Member(0, task.program, 1.0)
    with pytest.raises(CandidateFault) as caught:
        await implementer.implement(task, parent, Experiment(1, "", f"Set {mechanism.name} to {same}."))
    assert caught.value.kind == "unchanged"
    made = await implementer.implement(task, parent, Experiment(1, "", f"Set {mechanism.name} to {other}."))
    assert made.mechanism == mechanism.name
    assert made.program != task.program


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mechanisms: []", "mechanisms"),
        ("mechanisms:\n  - {name: x, about: a, options: [1]}", "options"),
        ("mechanisms:\n  - {name: x, about: a, options: [1, 1]}", "option 1 twice"),
        ("mechanisms:\n  - {name: x, about: a, option: [1, 2]}", "options"),
        ("mechanisms: [", "YAML"),
        ("sites: [a, a]\nmechanisms:\n  - {name: x, about: a, options: [1, 2]}", "has the site a twice"),
        ("sites: [x]\nmechanisms:\n  - {name: x, about: a, options: [1, 2]}", "the site x has the name of"),
        (
            "mechanisms:\n  - {name: b_c, about: a, options: [1, 2], sites: [a]}\n"
            "  - {name: c, about: a, options: [1, 2], sites: [a_b]}",
            "one name in the program",
        ),
    ],
)
def test_a_broken_catalogue_is_named_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "catalogue.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        load_catalogue(path)
