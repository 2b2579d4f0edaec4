"""Several ranks take the step that one process takes: gradient, its norm, metrics, weights and moments."""

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from pace_async.learn.batch import micro_batches
from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import random_group
from tests.support.rank_cases import CASES, VOCAB, Took, on_ranks, take

EQUAL, HALF = 1e-6, 1e-2
"""How far apart the results may be, as a share. Passes in bfloat16 round otherwise where they hold other calls."""

pytestmark = pytest.mark.timeout(600)  # each rank runs beside whatever else the machine does


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    write_llama(folder / "model", vocab=VOCAB, width=32, layers=2)
    return folder


@pytest.fixture(scope="module")
def two(folder: Path) -> dict[str, Took]:
    return on_ranks(list(CASES), 2, folder)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """As each rank has it: over so few numbers two threads mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def alone(name: str, folder: Path) -> Took:
    """The result of a case in this process."""
    return take(CASES[name], folder / "model", folder / "out")


def gap(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    """Norm of the difference as a share of the second's norm."""
    assert first.keys() == second.keys()
    apart = sum(float((first[name].double() - second[name].double()).square().sum()) for name in second)
    if apart == 0:
        return 0.0  # perhaps of nothing: an undone first step leaves no moments
    return math.sqrt(apart / sum(float(tensor.double().square().sum()) for tensor in second.values()))


def assert_same(name: str, took: Took, folder: Path) -> None:
    expected = alone(name, folder)
    equal = HALF if CASES[name].settings.precision == "bf16" else EQUAL
    assert gap(took.gradient, expected.gradient) < equal
    for kind in ("exp_avg", "exp_avg_sq", ""):
        parts = [
            {key: value for key, value in state.items() if key.partition("/")[2] == kind}
            for state in (took.state, expected.state)
        ]
        assert gap(*parts) < equal, kind
    assert [reason for reason, _ in took.steps] == [reason for reason, _ in expected.steps]
    for (_, metrics), (_, of_one) in zip(took.steps, expected.steps, strict=True):
        assert metrics == pytest.approx(of_one, rel=equal, abs=1e-9 if equal == EQUAL else 1e-3)
        assert metrics["grad_norm"] > 0


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_two_ranks_take_the_step_of_one_process(name: str, two: dict[str, Took], folder: Path) -> None:
    assert_same(name, two[name], folder)


@pytest.mark.long
def test_the_cases_reach_what_they_are_named_for(two: dict[str, Took]) -> None:
    assert 0 < two["halved"].steps[0][1]["step_scale"] < 1
    assert all("too far" in reason for reason, _ in two["undone"].steps)
    assert two["correction m2po"].steps[0][1]["masked_fraction"] > 0
    assert two["objective entropic"].steps[1][1]["kl_reference"] > 0


@pytest.mark.long
def test_a_rank_keeps_its_part_of_all_weights_and_all_adapters(two: dict[str, Took]) -> None:
    assert 0.49 < two["objective pace"].share < 0.51
    assert two["adapters"].share == 1.0


@pytest.mark.long
def test_where_passes_are_in_half_precision_so_are_gathered_matrices_and_parts_are_not(
    two: dict[str, Took], folder: Path
) -> None:
    assert (two["half precision"].kind, two["objective pace"].kind) == ("torch.bfloat16", "torch.float32")
    assert all(gradient.dtype == torch.float32 for gradient in two["half precision"].gradient.values())
    assert alone("half precision", folder).kind == "torch.float32"


@pytest.mark.long
@pytest.mark.nightly
def test_so_do_three(folder: Path) -> None:
    """Those that depend on how many ranks there are: the others divide as among two."""
    names = ["objective pace", "halved", *(name for name in CASES if "fewer calls than ranks" in name)]
    for name, took in on_ranks(names, 3, folder).items():
        assert_same(name, took, folder)


@pytest.mark.parametrize(("rollouts", "ranks"), [(1, 4), (5, 2), (8, 3)])
def test_every_call_is_on_one_rank_and_all_ranks_have_as_many_passes(rollouts: int, ranks: int) -> None:
    group = random_group(vocab=VOCAB, seed=3, rollouts=rollouts)
    dealt = [micro_batches(group, 60, 0, rank=rank, ranks=ranks) for rank in range(ranks)]
    assert len({len(batches) for batches in dealt}) == 1
    trained = sorted(
        tuple(batch.rest_ids_BT[row][batch.answer_BT[row] == 1].tolist())
        for batches in dealt
        for batch in batches
        for row in range(len(batch.rollouts_B))
        if batch.answer_BT[row].any()
    )
    assert trained == sorted(call.completion_ids for rollout in group.rollouts for call in rollout.calls)
    assert {batch.group_tokens for batches in dealt for batch in batches} == {group.tokens}
    tokens = [int(sum(batch.answer_BT.sum() for batch in batches)) for batches in dealt]
    assert rollouts < ranks or min(tokens) > 0
