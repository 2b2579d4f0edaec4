"""What the bundled tasks make of a seed: instances that depend on every bit of it, and do not reveal it."""

import secrets
from pathlib import Path

import pytest

from pace_async.evaluate.base import SECRET_SEEDS
from pace_async.evaluate.scorer.scorer_client import Scorer
from pace_async.task import BUNDLED, CHECKOUT, load_task, settings_of

NAMES = sorted(folder.parent.name for root in (CHECKOUT, BUNDLED) for folder in root.glob("tasks/*/task.yaml"))
SMALL = {"users": 30, "history": 24, "layers": 4, "windows": 2, "transactions": 20}
SAME = (
    "autocorrelation_1",
    "autocorrelation_2",
    "autocorrelation_3",
    "cap_set_8",
    "circle_packing",
    "columnar",
    "erdos_min_overlap",
    "expression_passes",
    "heilbronn_convex",
    "heilbronn_triangle",
    "hexagon_packing",
    "kissing_11",
    "min_distance_ratio",
    "min_distance_ratio_3d",
    "online_bin_packing",
)
"""Tasks with one instance, whatever the seed: so there is nothing in it to be memorised. The items of
online_bin_packing, the table of columnar and the functions of expression_passes follow from the seed, and no program is
given them."""


def scorer_of(name: str, log: Path) -> Scorer:
    spec = load_task(name).spec
    small = {key: value for key, value in SMALL.items() if key in spec.settings}
    settings = settings_of(spec, {**spec.offline_settings, **small})
    return Scorer(load_task(name).folder / spec.evaluator, log, settings=settings)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.fault("Programs as weapons", "a program is told no seed")
async def test_no_instance_reveals_its_seed(name: str, tmp_path: Path) -> None:
    seed = SECRET_SEEDS + secrets.randbits(128)
    shorter = [seed & ((1 << bits) - 1) for bits in (32, 53, 63, 64, 128)]
    async with scorer_of(name, tmp_path / "log") as scorer:
        text = "".join(await scorer.instances(seed))
    for told in (seed, *shorter, seed >> 64, seed >> 65):
        assert str(told) not in text or told < 1 << 32
        assert f"{told:x}" not in text.lower() or told < 1 << 32  # of eight digits, some stand in base64 by chance


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.fault("Programs as weapons", "every bit of a seed counts")
async def test_every_part_of_a_seed_makes_other_instances(name: str, tmp_path: Path) -> None:
    seed = SECRET_SEEDS + secrets.randbits(128)
    seeds = [seed, *(seed ^ (1 << bit) for bit in (0, 31, 32, 53, 63, 64, 96, 127))]
    async with scorer_of(name, tmp_path / "log") as scorer:
        texts = {"".join(await scorer.instances(each)) for each in seeds}
        assert len(texts) == (1 if name in SAME else len(seeds))
