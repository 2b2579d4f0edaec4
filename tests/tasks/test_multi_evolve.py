"""Fitness of multiple mutants: the split, the score, what is refused, and labels that no program can reach."""

import csv
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pace_async.config import EvaluationConfig, RewardConfig
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.reward import RewardRule
from pace_async.task import load_task, split_block
from tests.doubles.evaluators import scored
from tests.support.modules import load

TASK = load_task("multi_evolve")
sys.path.insert(0, str(TASK.folder))
EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "multi_evolve_evaluator")
ASSAYS, LANDSCAPE = sys.modules["assays"], sys.modules["landscape"]
sys.path.remove(str(TASK.folder))
SETTINGS = dict(TASK.spec.settings)
GB1 = Path(os.environ.get("PACE_GB1", Path(__file__).parents[3] / "shared" / "data" / "gb1"))
GOOD = {
    **{"target": "logit", "readout": "logistic", "offset": 0.1, "singles": "both", "pairs": "both"},
    **{"ridge": 3.0, "stiffness": 1.0, "damping": 0.9},
}
needs_gb1 = pytest.mark.skipif(
    not (GB1 / ASSAYS.GB1_FILE).is_file(), reason="no GB1 data beside the repository or where PACE_GB1 says"
)


def program_of(edits: dict[str, Any]) -> str:
    """The seed program with these settings."""
    before, block, after = split_block(TASK.program)
    for name, value in edits.items():
        block = apply_edit(block, MechanismEdit(name, value))
    return before + block + after


def result(edits: dict[str, Any], instances: list[Any], settings: dict[str, Any] = SETTINGS) -> dict[str, float]:
    """The scorer's result for the seed program with these settings."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program_of(edits), namespace)
    outputs = [namespace["predict"](instance).tolist() for instance in instances]
    return EVALUATOR.score(instances, outputs, 0, settings)


@pytest.fixture(scope="module")
def instances() -> list[Any]:
    return json.loads(json.dumps(EVALUATOR.instances(0, SETTINGS)))


def truth(settings: dict[str, Any] = SETTINGS) -> list[list[float]]:
    """What is to be predicted: known to the scorer only."""
    return [assay.truth.tolist() for assay in EVALUATOR._assays(0, **EVALUATOR._chosen(settings))]


def order(variant: str) -> int:
    return len(variant.split(":")) if variant else 0


def test_up_to_two_mutations_are_for_training_and_more_are_to_be_predicted(instances: list[Any]) -> None:
    for instance in instances:
        assert set(instance) == {"train", "scores", "test"}
        assert {order(variant) for variant in instance["train"]} == {0, 1, 2}
        assert min(order(variant) for variant in instance["test"]) == 3
        assert len(instance["scores"]) == len(instance["train"])
        assert instance["scores"][instance["train"].index("")] == 1.0
        for variants in (instance["train"], instance["test"]):
            assert variants == sorted(set(variants))


def test_a_landscape_is_its_seeds_and_most_variants_of_many_mutations_are_dead() -> None:
    first, again, other = (EVALUATOR.instances(seed, SETTINGS) for seed in (3, 3, 4))
    assert first == again != other
    for scores in truth():
        assert np.median(scores) < 0.2 < 1.0 < max(scores)


@pytest.mark.long
def test_the_seed_program_predicts_a_little_and_a_combination_of_settings_much_more(instances: list[Any]) -> None:
    assert result({}, instances)["score"] == pytest.approx(0.336, abs=0.005)
    assert result(GOOD, instances)["score"] > 0.64
    for name, before in (("readout", "linear"), ("pairs", "onehot"), ("ridge", 100.0)):
        assert result({**GOOD, name: before}, instances)["score"] < 0.6


def test_rewards_tell_the_scores_of_a_short_run_apart(instances: list[Any]) -> None:
    rule = RewardRule.of(RewardConfig(), TASK.spec)
    seed = result({}, instances)["score"]
    scores = [seed, result({"ridge": 0.1}, instances)["score"], result(GOOD, instances)["score"]]
    rewards = [rule.of_score(score, parent=seed, seed=seed) for score in scores]
    assert 0 < rewards[0] < rewards[1] < rewards[2] < rule.scale


def test_a_run_with_the_bounds_of_before_goes_on() -> None:
    assert TASK.scores_as("ab1749a676b25ff6ce2321d54b7b0cc4")


def test_perfect_predictions_score_one_and_their_opposite_less_than_nothing(instances: list[Any]) -> None:
    perfect = EVALUATOR.score(instances, truth(), 0, SETTINGS)
    assert perfect["score"] == pytest.approx(1.0)
    opposite = [[-value for value in scores] for scores in truth()]
    assert EVALUATOR.score(instances, opposite, 0, SETTINGS)["score"] == pytest.approx(-0.7, abs=0.01)


def test_both_readings_of_precision_are_given_and_a_setting_says_which_counts(instances: list[Any]) -> None:
    predictions = [np.minimum(scores, np.sort(scores)[-40]).tolist() for scores in truth()]
    share = EVALUATOR.score(instances, predictions, 0, {**SETTINGS, "top": "percent"})
    items = EVALUATOR.score(instances, predictions, 0, {**SETTINGS, "top": "items"})
    assert share["precision_five_per_cent"] == items["precision_five_per_cent"] == 1.0
    assert share["precision_five_items"] == items["precision_five_items"] == 0.0
    assert (share["top_is_per_cent"], items["top_is_per_cent"]) == (1.0, 0.0)
    assert share["score"] - items["score"] == pytest.approx(0.3)
    with pytest.raises(ValueError, match="percent or items"):
        EVALUATOR.instances(0, {**SETTINGS, "top": "five"})


def test_a_tie_among_the_best_predicted_counts_as_if_the_worst_had_come_first() -> None:
    measured = np.arange(100.0)
    tied = np.where(measured >= 90, 1.0, 0.0)
    assert EVALUATOR._precision(tied, measured, 5) == 0.0
    assert EVALUATOR._precision(tied + measured / 1000, measured, 5) == 1.0


BREAK: dict[str, Callable[[list[Any]], object]] = {
    "all the same": lambda found: found.__setitem__(0, [0.5] * len(found[0])),
    "the same but for rounding": lambda found: found.__setitem__(
        0, [0.5 + k % 2 * 1e-16 for k in range(len(found[0]))]
    ),
    "all nothing": lambda found: found.__setitem__(0, [0] * len(found[0])),
    "not a number": lambda found: found[0].__setitem__(5, math.nan),
    "infinite": lambda found: found[0].__setitem__(5, math.inf),
    "so large that their spread is infinite": lambda found: found[0].__setitem__(slice(0, 2), [1.7e308, -1.7e308]),
    "a truth value": lambda found: found[0].__setitem__(5, True),
    "text": lambda found: found[0].__setitem__(5, "1"),
    "null": lambda found: found.__setitem__(0, None),
    "a list in the list": lambda found: found[0].__setitem__(5, [1.0]),
    "one too few": lambda found: found[0].pop(),
    "one too many": lambda found: found[0].append(1.0),
    "an assay too few": lambda found: found.pop(),
}


@pytest.mark.parametrize("how", BREAK)
def test_predictions_that_are_not_allowed_score_nothing(how: str, instances: list[Any]) -> None:
    found: list[Any] = truth()
    BREAK[how](found)
    with pytest.raises(ValueError, match=r"predictions?"):
        EVALUATOR.score(instances, found, 0, SETTINGS)


@pytest.mark.long
def test_every_mechanism_is_assigned_once_in_the_block_and_every_option_predicts(instances: list[Any]) -> None:
    assert TASK.catalogue_path is not None
    catalogue = load_catalogue(TASK.catalogue_path)
    block = split_block(TASK.program)[1]
    small = {name: values[:: 10 if name == "test" else 4] for name, values in instances[0].items()}
    for mechanism in catalogue.mechanisms:
        assert any(apply_edit(block, MechanismEdit(mechanism.name, option)) == block for option in mechanism.options)
        for option in mechanism.options:
            namespace: dict[str, Any] = {"__name__": "candidate"}
            base = {"members": 2} if mechanism.name == "readout" else {**GOOD, "members": 2}
            exec(program_of({**base, mechanism.name: option}), namespace)
            found = namespace["predict"](small)
            assert np.isfinite(found).all()
            assert np.ptp(found) > 0


def write_twelve(folder: Path) -> None:
    """Twelve small assays as the user would supply them: 6 sites, scores that follow from nothing else."""
    rng = np.random.default_rng(5)
    for name in ASSAYS.TWELVE:
        wild = [(site, "A") for site in range(1, 7)]
        drawn = {":".join(f"A{s}{'CDEF'[rng.integers(4)]}" for s, _ in wild if rng.random() < 0.5) for _ in range(400)}
        rows = [(variant or "WT", rng.standard_normal()) for variant in sorted(drawn)]
        with (folder / f"{name}.csv").open("w", newline="") as file:
            told = ((variant, mutated(variant), score) for variant, score in rows)
            csv.writer(file).writerows([("mutant", "mutated_sequence", "DMS_score"), *told])


def mutated(variant: str) -> str:
    """Six times A with the mutations of a variant."""
    residues = ["A"] * 6
    for mutation in variant.split(":") if variant != "WT" else ():
        residues[int(mutation[1:-1]) - 1] = mutation[-1]
    return "".join(residues)


def twelve(folder: Path) -> dict[str, Any]:
    return {**SETTINGS, "data": "twelve", "path": str(folder)}


def test_the_twelve_assays_are_read_and_split_alike(tmp_path: Path) -> None:
    write_twelve(tmp_path)
    found = EVALUATOR.instances(0, twelve(tmp_path))
    assert len(found) == 12
    assert "" in found[0]["train"]
    assert min(map(order, found[0]["test"])) == 3
    few = EVALUATOR.instances(0, {**twelve(tmp_path), "most": 30})
    assert [len(instance["test"]) for instance in few] == [30] * 12
    assert set(few[0]["test"]) < set(found[0]["test"])


def test_the_wild_types_sequence_reaches_the_program_where_the_files_tell_it(tmp_path: Path) -> None:
    write_twelve(tmp_path)
    settings = twelve(tmp_path)
    found = EVALUATOR.instances(0, settings)
    assert {instance["target_seq"] for instance in found} == {"AAAAAA"}
    assert EVALUATOR.score(found, truth(settings), 0, settings)["sequences"] == 12
    assert ASSAYS.wild_type("A2C:A4D", "ACADA") == "AAAAA"
    assert ASSAYS.wild_type("A2C:A4D", "ACAAA") is None  # not the sequence of this variant
    assert ASSAYS.wild_type("A7C", "ACADA") is None
    assert ASSAYS.wild_type("", "ACADA") == "ACADA"
    assert ASSAYS.wild_type("A2C", None) is None
    file = tmp_path / "VH14_Li_2023.csv"
    without = [",".join(line.split(",")[::2]) for line in file.read_text().splitlines()]
    file.write_text("\n".join(without) + "\n")
    EVALUATOR._assays.cache_clear()
    assert "target_seq" not in EVALUATOR.instances(0, settings)[-1]
    file.write_text("\n".join([f"{without[0]},target_seq", *(f"{line},MAAAAAA" for line in without[1:])]) + "\n")
    EVALUATOR._assays.cache_clear()
    assert EVALUATOR.instances(0, settings)[-1]["target_seq"] == "MAAAAAA"


def test_the_published_protocol_asks_for_variants_of_measured_singles_alone(tmp_path: Path) -> None:
    write_twelve(tmp_path)
    published = {**twelve(tmp_path), "protocol": "published"}
    whole, kept = (EVALUATOR.instances(0, settings) for settings in (twelve(tmp_path), published))
    for every, some in zip(whole, kept, strict=True):
        singles = {variant for variant in every["train"] if order(variant) == 1}
        assert some["test"] == tuple(v for v in every["test"] if singles.issuperset(v.split(":")))
    assert any(len(some["test"]) < len(every["test"]) for every, some in zip(whole, kept, strict=True))
    with pytest.raises(ValueError, match="whole or published"):
        EVALUATOR.instances(0, {**SETTINGS, "protocol": "lite"})


def test_missing_data_is_one_sentence_with_its_source(tmp_path: Path) -> None:
    write_twelve(tmp_path)
    (tmp_path / "VH14_Li_2023.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks 1 of the twelve assays \(VH14_Li_2023.csv\).*zenodo.17620759"):
        EVALUATOR.instances(0, twelve(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no GB1 data .*FLIP.*evaluation.settings.path="):
        EVALUATOR.instances(0, {**SETTINGS, "data": "gb1", "path": str(tmp_path)})


@pytest.mark.parametrize(
    ("row", "why"),
    [("A1B:C2D,", "no score"), ("A1B:C2D,nan", "no score"), ("A1B;C2D,1", "no mutant"), ("A1C,1\nA1C,2", "twice")],
)
def test_an_assay_that_cannot_be_read_is_named(tmp_path: Path, row: str, why: str) -> None:
    write_twelve(tmp_path)
    with (tmp_path / "VH14_Li_2023.csv").open("a") as file:
        file.write(f"{row}\n".replace(",", ",A,"))
    with pytest.raises(ValueError, match=rf"VH14_Li_2023.*{why}"):
        EVALUATOR.instances(0, twelve(tmp_path))
    (tmp_path / "VH14_Li_2023.csv").write_text("variant,DMS_score\nA1C,1\n")
    with pytest.raises(ValueError, match="no column mutant"):
        EVALUATOR.instances(0, twelve(tmp_path))


HUNT = """
import gc, os, sys

def looked_at(folders):
    for folder in folders:
        for here, below, files in os.walk(folder):
            below[:] = [name for name in below if name != "site-packages"]  # an environment may lie below /tmp
            for name in files:
                try:
                    with open(os.path.join(here, name), "rb") as file:
                        yield name, file.read(1 << 20)
                except OSError:
                    pass

def labels(variants):
    for name, data in looked_at(PLACES):
        if name in ("evaluator.py", "landscape.py") or (variants[0] + ",").encode() in data:
            return name
    for name in ("assays", "landscape", "evaluator"):
        try:
            return __import__(name).__name__
        except ImportError:
            pass
    asked = set(variants)
    for one in gc.get_objects():
        if isinstance(one, dict) and asked & {key for key in one if isinstance(key, str)}:
            return "a dict in memory"

def predict(instance):
    found = labels(instance["test"])
    if found:
        raise LookupError(found)
    return [float(len(variant)) + k for k, variant in enumerate(instance["test"])]
"""


async def evaluate(program: str, settings: dict[str, Any], log: Path) -> Evaluation:
    tier = await pick_tier(False)
    async with open_evaluator(TASK, EvaluationConfig(settings=settings), tier=tier, log=log) as evaluator:
        return await scored(evaluator, program, 0)


async def test_a_program_that_looks_for_the_labels_does_not_find_them(tmp_path: Path) -> None:
    data = tmp_path / "assays"
    data.mkdir()
    write_twelve(data)
    hunt = f"PLACES = {[str(data), str(TASK.folder), '/tmp', '/proc/self', '/proc/1']!r}\n{HUNT}"
    found = await evaluate(hunt, {"data": "twelve", "path": str(data)}, tmp_path / "log")
    assert found.outcome == "ok", found.detail
    assert found.score is not None
    assert found.score < 0.3
    namespace: dict[str, Any] = {"PLACES": [str(data)]}
    exec(HUNT, namespace)  # the same program where nothing keeps it from the file
    with pytest.raises(LookupError, match="csv"):
        namespace["predict"](EVALUATOR.instances(0, twelve(data))[0])


async def test_a_run_without_the_data_says_what_to_get(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^There is no GB1 data .*=FOLDER\.$"):
        await evaluate(TASK.program, {"data": "gb1", "path": str(tmp_path)}, tmp_path / "log")


@needs_gb1
async def test_the_seed_program_on_gb1_reaches_a_quarter_through_the_sandbox(tmp_path: Path) -> None:
    found = await evaluate(TASK.program, {"data": "gb1", "path": str(GB1)}, tmp_path / "log")
    assert found.outcome == "ok", found.detail
    assert found.metrics["predicted"] == 147_193
    assert found.metrics["pearson"] == pytest.approx(0.26, abs=0.01)
    assert found.metrics["precision_five_per_cent"] == pytest.approx(0.242, abs=0.01)


@needs_gb1
def test_settings_of_the_catalogue_reach_far_more_on_gb1() -> None:
    settings = {**SETTINGS, "data": "gb1", "path": str(GB1), "most": 6000}
    found = result(
        {**GOOD, "offset": 0.01, "singles": "onehot", "pairs": "onehot", "ridge": 0.1},
        EVALUATOR.instances(0, settings),
        settings,
    )
    assert found["score"] > 0.7


def test_the_authors_split_keeps_variants_of_measured_singles_with_at_most_ten_mutations(tmp_path: Path) -> None:
    singles = [f"A{place}C" for place in range(1, 12)]
    deep = ":".join(singles[:10])
    rows = [("", 1.0), *((single, 0.5) for single in singles), (deep, 0.2), (":".join(singles), 0.1), ("A1C:A2D", 0.3)]
    kept = [variant for variant, _ in ASSAYS.of_measured_singles(rows)]
    assert kept == ["", *singles, deep]
    assert len(ASSAYS.LITE) == 5
    assert set(ASSAYS.LITE) <= set(ASSAYS.TWELVE)
    with pytest.raises(FileNotFoundError, match="lacks 5 of the five assays"):
        EVALUATOR.instances(0, {**SETTINGS, "data": "lite", "path": str(tmp_path)})
