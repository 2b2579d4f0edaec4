"""Columnar: every pipeline loses nothing, the bytes are those of the blocks, the table depends on the seed alone."""

import math
import secrets
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import load_task, split_block
from tests.support.modules import load

TASK = load_task("columnar")
sys.path.insert(0, str(TASK.folder))
EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "columnar_evaluator")
sys.path.remove(str(TASK.folder))
NAMES = EVALUATOR.NAMES
STORED = "none none wide store"
GOOD = {
    "stamps": "lag1 divide sevens zlib",
    "sensor": "lag1 zigzag sevens huffman",
    "runs": "none ranks sevens zlib",
    "woven": "lag3 zigzag escape huffman",
    "sparse": "least none escape zlib",
    "ids": "none frequent wide rice",
}
"""A pipeline that suits each kind of the table of seed 0."""


def answer(pipelines: dict[str, str]) -> dict[str, str]:
    """Each kind's pipeline at its columns, and the seed program's at the others."""
    return {name: pipelines.get(name.rstrip("1234"), STORED) for name in NAMES}


def score(output: object, seed: int = 0) -> float:
    return EVALUATOR.score(EVALUATOR.instances(seed), [output], seed)["score"]


def program_of(edits: list[MechanismEdit]) -> Any:
    """The output of the seed program with these edits."""
    before, block, after = split_block(TASK.program)
    for edit in edits:
        block = apply_edit(block, edit)
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(before + block + after, namespace)
    return namespace["pipelines"](EVALUATOR.instances(0)[0])


NUMBERS = st.one_of(st.integers(0, 20), st.integers(0, 2**32 - 1), st.sampled_from([0, 2**31 - 1, 2**31, 2**32 - 1]))
COLUMNS = st.lists(NUMBERS, min_size=1, max_size=70)
PIPELINES = st.tuples(
    st.lists(st.sampled_from(sorted(EVALUATOR.STEPS)), max_size=4),
    st.sampled_from(sorted(EVALUATOR.LAYOUTS)),
    st.sampled_from(sorted(EVALUATOR.CODERS)),
).map(lambda parts: [*parts[0], *parts[1:]])


@pytest.mark.long
@settings(max_examples=400)
@given(COLUMNS, PIPELINES)
def test_a_block_alone_gives_its_column_back_whatever_the_pipeline(numbers: list[int], pipeline: list[str]) -> None:
    column = np.array(numbers, np.uint32)
    assert EVALUATOR.decoded(EVALUATOR.encoded(column, pipeline)).tolist() == numbers


@pytest.mark.parametrize("name", [*EVALUATOR.STEPS, *EVALUATOR.LAYOUTS, *EVALUATOR.CODERS])
def test_each_word_loses_nothing_on_any_column(name: str) -> None:
    steps = [name] if name in EVALUATOR.STEPS else []
    layout = name if name in EVALUATOR.LAYOUTS else "shuffle"
    coder = name if name in EVALUATOR.CODERS else "zlib"
    for column in NAMES:
        block = EVALUATOR.encoded(EVALUATOR.table(7)[column], [*steps, layout, coder])
        assert np.array_equal(EVALUATOR.decoded(block), EVALUATOR.table(7)[column])


def test_small_columns_are_changed_as_by_hand() -> None:
    column = np.array([7, 9, 9, 12], np.uint32)

    def after(word: str) -> list[int]:
        return EVALUATOR.STEPS[word].encode(column)[0].tolist()

    assert after("lag1") == [7, 2, 0, 3]
    assert after("lag2") == [7, 9, 2, 3]
    assert after("second") == [7, 2**32 - 5, 2**32 - 2, 3]
    assert after("mode") == [2**32 - 2, 0, 0, 3]
    assert after("zigzag") == [14, 18, 18, 24]
    assert after("ranks") == [0, 1, 1, 2]
    assert after("frequent") == [1, 0, 0, 2]
    assert after("repeats") == [7, 9, 12, 0, 1, 0]


def test_the_seed_program_stores_every_number() -> None:
    blocks = sum(len(EVALUATOR.encoded(EVALUATOR.table(0)[name], STORED.split())) for name in NAMES)
    assert EVALUATOR.RAW == 24 * 512 * 4
    assert EVALUATOR.RAW < blocks < EVALUATOR.RAW + 24 * 10
    assert score(program_of([])) == math.log2(EVALUATOR.RAW / blocks)


def test_a_score_counts_the_bytes_of_all_blocks() -> None:
    better = answer({"woven": GOOD["woven"]})
    blocks = sum(len(EVALUATOR.encoded(EVALUATOR.table(5)[name], better[name].split())) for name in NAMES)
    assert score(better, 5) == math.log2(EVALUATOR.RAW / blocks)


def test_bytes_of_a_coder_that_loses_numbers_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    coder = EVALUATOR.CODERS["store"]

    def without_the_last_bit(values: Any) -> Any:
        return coder.encode(values // 2 * 2)

    monkeypatch.setitem(EVALUATOR.CODERS, "store", coder._replace(encode=without_the_last_bit))
    with pytest.raises(AssertionError, match="none wide store loses numbers of"):
        score(program_of([]), seed=11)  # a seed of its own: blocks are remembered


def test_the_best_options_of_each_kind_reach_nearly_the_best_score_and_no_kind_alone_does() -> None:
    assert score(answer(GOOD)) > 3.1
    assert all(0.1 < score(answer({kind: pipeline})) < 0.5 for kind, pipeline in GOOD.items())


def test_what_suits_a_kind_suits_all_its_columns_better_than_what_suits_another() -> None:
    for kind in ("sensor", "woven", "ids"):
        for column in (f"{kind}{number}" for number in range(1, 5)):
            own = EVALUATOR.coded_bytes(0, column, tuple(GOOD[kind].split()))
            others = [EVALUATOR.coded_bytes(0, column, tuple(GOOD[other].split())) for other in GOOD if other != kind]
            assert own < min(others)


def test_the_table_depends_on_every_bit_of_the_seed_and_no_instance_reveals_it() -> None:
    def text(seed: int) -> bytes:
        return b"".join(EVALUATOR.table(seed)[name].tobytes() for name in NAMES)

    seed = (1 << 128) + secrets.randbits(128)
    first = text(seed)
    assert all(first != text(seed ^ (1 << bit)) for bit in (0, 31, 32, 64, 96, 127))
    assert EVALUATOR.instances(seed) == EVALUATOR.instances(0)


@pytest.mark.parametrize(
    "output",
    [
        None,
        [],
        "wide zlib",
        {},
        {**answer({}), "more1": STORED},
        {name: pipeline for name, pipeline in answer({}).items() if name != "ids4"},
    ],
)
def test_an_answer_without_a_pipeline_for_each_column_is_refused(output: object) -> None:
    with pytest.raises(ValueError, match="a pipeline for each"):
        score(output)


@pytest.mark.parametrize(
    "pipeline",
    ["", "zlib", "wide zlib9", "wide", "zlib wide", "lag1 " * 5 + "wide zlib", "x" * 500, None, 7, ["wide", "zlib"]],
)
def test_what_is_no_pipeline_is_refused(pipeline: object) -> None:
    with pytest.raises(ValueError, match="the pipeline of ids4"):
        score({**answer({}), "ids4": pipeline})


def test_every_option_of_the_catalogue_is_known_and_scores() -> None:
    assert TASK.catalogue_path is not None
    catalogue = load_catalogue(TASK.catalogue_path)
    assert len(catalogue.targets) == 4 * len(NAMES)
    options = {mechanism.name: mechanism.options for mechanism in catalogue.mechanisms}
    for kind in {name[:-1] for name in NAMES}:
        assert [set(options[f"{kind}_{stage}"]) for stage in ("predictor", "map", "layout", "coder")] == [
            set(EVALUATOR.PREDICTORS),
            set(EVALUATOR.MAPS),
            set(EVALUATOR.LAYOUTS),
            set(EVALUATOR.CODERS),
        ]
    for number in range(24):
        column = f"column{number % 4 + 1}"
        edits = [MechanismEdit(name, some[number % len(some)], column) for name, some in options.items()]
        assert math.isfinite(score(program_of(edits)))
