"""The evolve blocks of the bundled tasks are open: another algorithm in a block gets another score, and opening them
has changed the score of no seed program."""

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.implement.catalogue import load_catalogue
from pace_async.programs.text import assignments
from pace_async.task import editable, load_task, task_folders
from tests.doubles.evaluators import scored

SEEDS = {
    "autocorrelation_1": 1.9944929024760552,
    "autocorrelation_2": 0.6698304996819593,
    "autocorrelation_3": 1.9944929024760552,
    "cap_set_8": 256.0,
    "circle_packing": 0.9597642169952227,
    "columnar": -0.0049226785690451745,
    "erdos_min_overlap": 0.4983084469804038,
    "expression_passes": 0.0,
    "heilbronn_convex": 0.0007561879386964121,
    "heilbronn_triangle": 0.0004006179777422671,
    "hexagon_packing": 7.073327762872902,
    "kissing_11": 220.0,
    "min_distance_ratio": 28.945809351392136,
    "min_distance_ratio_3d": 22.36287676589957,
    "multi_evolve": 0.33592467059801584,
    "online_bin_packing": 4.055236588466214,
    "prism": 15.33088690560125,
    "txn_scheduling": 1042.752867570386,
}
"""Scores of the seed programs on the instances of seed 0, from the time when the blocks held settings only."""
SEED_BALANCE = 0.6310750527320651
"""Of eplb's seed program, whose score depends on the machine's speed."""
STEPS = """
        def heights(instance):
            return [3, 4, 5, 6, 5, 4, 3, 3, 4]
        """
OTHERS = {
    "autocorrelation_1": STEPS,
    "autocorrelation_2": STEPS,
    "autocorrelation_3": STEPS.replace("3, 4]", "3, -1]"),
    "cap_set_8": """
        import itertools
        import random

        def cap_set(instance):
            vectors = list(itertools.product(range(3), repeat=instance["dimension"]))
            random.Random(5).shuffle(vectors)
            chosen, barred = [], set()
            for vector in vectors:
                if vector not in barred:
                    barred.update(tuple(-(a + b) % 3 for a, b in zip(vector, other)) for other in chosen)
                    chosen.append(vector)
            return [list(vector) for vector in chosen]
        """,
    "circle_packing": """
        def pack(instance):
            return [[(i % 6 + 0.5) / 6, (i // 6 + 0.5) / 6, 0.08] for i in range(instance["n"])]
        """,
    "columnar": """
        def pipelines(instance):
            return {name: "lag1 zigzag shuffle zlib" for name in instance["columns"]}
        """,
    "eplb": """
        def place(instance):
            return [pairs_of(load, instance["slots"], instance["gpus"]) for load in instance["load"]]

        def pairs_of(load, slots, gpus):
            turn = sorted(range(len(load)), key=lambda expert: -load[expert])
            turn = [*turn, *turn[: slots - len(turn)]]
            rooms = [[] for _ in range(gpus)]
            for place, expert in enumerate(turn):
                lap, step = divmod(place, gpus)
                rooms[gpus - 1 - step if lap % 2 else step].append(expert)
            return [expert for room in rooms for expert in room]
        """,
    "erdos_min_overlap": """
        def heights(instance):
            return [2, 3, 4, 5, 4, 3, 2]
        """,
    "expression_passes": """
        def orders(instance):
            passes = [name for name in instance["passes"] if name != "none"]
            return {
                name: [passes[(k + step) % len(passes)] for step in range(instance["steps"])]
                for k, name in enumerate(instance["functions"])
            }
        """,
    "heilbronn_convex": """
        def place(instance):
            n = instance["n"]
            return [[k, k * k % n] for k in range(n)]
        """,
    "heilbronn_triangle": """
        def place(instance):
            n = instance["n"]
            pairs = [(k / (2 * n + 2), k * k % n / (2 * n + 2)) for k in range(n)]
            return [[u + v / 2, v * math.sqrt(3) / 2] for u, v in pairs]
        """,
    "hexagon_packing": """
        def pack(instance):
            return [[2.1 * (k % 4), 2.1 * (k // 4), 0.0] for k in range(instance["n"])]
        """,
    "kissing_11": """
        def arrange(instance):
            n = instance["dimensions"]
            return [[sign * (k == i) for k in range(n)] for i in range(n) for sign in (1, -1)]
        """,
    "min_distance_ratio": """
        def place(instance):
            return [[k % 4, k // 4] for k in range(instance["n"])]
        """,
    "min_distance_ratio_3d": """
        def place(instance):
            return [[k % 3, k // 3 % 3, k // 9] for k in range(instance["n"])]
        """,
    "multi_evolve": """
        def predict(instance):
            total, times = {}, {}
            for text, score in zip(instance["train"], instance["scores"]):
                for name in text.split(":"):
                    total[name] = total.get(name, 0.0) + score
                    times[name] = times.get(name, 0) + 1
            mean = sum(instance["scores"]) / len(instance["scores"])
            effect = {name: total[name] / times[name] - mean for name in total}
            return [mean + sum(effect.get(name, 0.0) for name in text.split(":")) for text in instance["test"]]
        """,
    "online_bin_packing": """
        def rule(instance):
            capacity = instance["capacity"]
            return [[float(level - size) for level in range(capacity + 1)] for size in range(capacity + 1)]
        """,
    "prism": """
        def place(instance):
            room, demand = [instance["memory"]] * instance["gpus"], [0.0] * instance["gpus"]
            placement = [0] * len(instance["models"])
            for k in sorted(range(len(placement)), key=lambda k: -instance["models"][k][0]):
                size, rate, target = instance["models"][k]
                fits = [gpu for gpu in range(len(room)) if room[gpu] > size]
                gpu = min(fits, key=lambda gpu: (demand[gpu] + rate / target) / (room[gpu] - size))
                placement[k], room[gpu], demand[gpu] = gpu, room[gpu] - size, demand[gpu] + rate / target
            return placement
        """,
    "txn_scheduling": """
        def schedule(instance):
            transactions = instance["transactions"]
            return sorted(range(len(transactions)), key=lambda t: (len(transactions[t]), t))
        """,
}
"""Of each task a block with another algorithm and none of the settings."""
SETTINGS: dict[str, dict[str, bool | int | float | str]] = {
    "kuairec": {"data": "synthetic", "users": 24, "history": 16, "width": 8, "blocks": 1, "epochs": 1}
}
COUNTS = """
        class Recommender(nn.Module):
            def __init__(self, items, history, width, blocks):
                super().__init__()
                self.width, self.liked = width, nn.Parameter(torch.zeros(items + 1))

            def forward(self, items, times):
                return torch.ones(*items.shape, self.width)

            def score(self, users, items):
                found = self.liked[items].expand(len(users), items.shape[-1])
                return found + 1e-3 * torch.sin(items.float()) + 0 * users[:, :1]
        """
"""A block of kuairec that learns how often items are watched, and nothing about a user."""


async def found_of(name: str, block: str, log: Path) -> tuple[Evaluation, Evaluation]:
    """What the real evaluator says of the seed program, and of it with another block, in the sandbox."""
    task, tier = load_task(name), await pick_tier(False)
    before, _, after = editable(task.program)
    config = EvaluationConfig(slots=1, settings=SETTINGS.get(name, {}))
    async with open_evaluator(task, config, tier=tier, log=log) as evaluator:
        return await scored(evaluator, task.program), await scored(evaluator, before + dedent(block) + after)


def test_each_bundled_task_is_told_another_algorithm() -> None:
    assert sorted(OTHERS) == sorted({*task_folders()} - {"kuairec"}) == sorted({*SEEDS, "eplb"})


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_block_holds_entry_helpers_and_settings_and_outside_stand_only_imports(name: str) -> None:
    task = load_task(name)
    before, block, after = editable(task.program)
    outside = ast.parse(before + after).body[1:]  # after the module's docstring
    assert all(isinstance(node, ast.Import | ast.ImportFrom) for node in outside)
    defined = {node.name for node in ast.parse(block).body if isinstance(node, ast.FunctionDef)}
    assert task.spec.entry in defined
    assert task.catalogue_path is not None
    assigned = assignments(block)
    for mechanism in load_catalogue(task.catalogue_path).mechanisms:
        assert {len(assigned[each]) for each in mechanism.assigned} == {1}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(OTHERS))
async def test_another_algorithm_in_the_block_gets_another_score(name: str, tmp_path: Path) -> None:
    seed, other = await found_of(name, OTHERS[name], tmp_path / "log")
    assert (seed.outcome, other.outcome) == ("ok", "ok"), (seed.detail, other.detail)
    assert load_task(name).spec.shown_metrics.keys() <= (seed.metrics or {}).keys()
    if name == "eplb":
        assert seed.metrics is not None
        assert other.metrics is not None
        assert seed.metrics["balancedness"] == pytest.approx(SEED_BALANCE, rel=1e-6)
        assert other.metrics["balancedness"] != pytest.approx(SEED_BALANCE, rel=1e-3)
    else:
        assert seed.score == pytest.approx(SEEDS[name], rel=1e-6)
        assert other.score != pytest.approx(SEEDS[name], rel=1e-3)


@pytest.mark.long
async def test_another_model_in_the_block_of_the_recommender_gets_another_score(tmp_path: Path) -> None:
    seed, other = await found_of("kuairec", COUNTS, tmp_path / "log")
    assert (seed.outcome, other.outcome) == ("ok", "ok"), (seed.detail, other.detail)
    assert seed.score != other.score
