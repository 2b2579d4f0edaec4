"""Expert placement: replicas are counted by the scorer, cheats score nothing, and every edit of the catalogue runs."""

import json
import math
import os
import sys
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import load_task, split_block
from tests.support.command_line import Shell
from tests.support.modules import load

TASK = load_task("eplb")
sys.path.insert(0, str(TASK.folder))
EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "eplb_evaluator")
LOAD = sys.modules["expert_load"]
sys.path.remove(str(TASK.folder))
SETTINGS = dict(TASK.spec.settings)
SMALL = {**SETTINGS, "layers": 2, "windows": 2}
BEST = {
    **{"counter": "array", "placer": "heap", "refiner": "array", "domains": 1, "copies": "hottest"},
    **{"order": "falling", "spread": "snake", "recent": 0.4},
}
HIERARCHICAL = {"domains": 4, "gather": "joined", "copies": "hottest", "order": "falling"}
GLOBAL = {**HIERARCHICAL, "domains": 1}
TRACE = Path(os.environ.get("PACE_EPLB", Path(__file__).parents[3] / "shared" / "data" / "eplb"))
ENGINES = {"counter": "array", "placer": "array", "refiner": "array"}


def program_of(text: str, edits: dict[str, Any]) -> str:
    """The seed program with these settings."""
    before, block, after = split_block(text)
    for name, value in edits.items():
        block = apply_edit(block, MechanismEdit(name, value))
    return before + block + after


def maps_of(edits: dict[str, Any], settings: dict[str, Any] = SETTINGS) -> list[Any]:
    """What the seed program with these settings answers, window after window."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program_of(TASK.program, edits), namespace)
    return [namespace["place"](instance).tolist() for instance in EVALUATOR.instances(0, settings)]


def score(
    outputs: list[Any], settings: dict[str, Any] = SETTINGS, seconds: list[float] | None = None
) -> dict[str, Any]:
    """The scorer's result, for calls that took no time unless said."""
    instances = json.loads(json.dumps(EVALUATOR.instances(0, settings)))
    return EVALUATOR.score(instances, outputs, 0, settings, seconds or [0.0] * len(outputs), 0.0)


def striped() -> list[Any]:
    """A map that is allowed: every expert in turn, the first 32 twice."""
    return [[[slot % 256 for slot in range(288)] for _ in range(2)] for _ in range(2)]


def test_the_seed_program_is_balanced_a_little_and_a_combination_of_settings_much_more() -> None:
    assert score(maps_of({}))["balancedness"] == pytest.approx(0.631, abs=0.002)
    assert score(maps_of(BEST))["balancedness"] == pytest.approx(0.770, abs=0.002)
    assert score(maps_of({"order": "falling", "copies": "hottest"}))["balancedness"] < 0.66


def test_perfect_foresight_is_far_better_than_any_forecast_and_no_instance_allows_it() -> None:
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program_of(TASK.program, {**BEST, "recent": 1.0}), namespace)
    shown = EVALUATOR.instances(0, {**SETTINGS, "windows": 7})
    ahead = [namespace["place"](instance).tolist() for instance in shown[1:]]
    assert score(ahead)["balancedness"] > 0.9
    asked = EVALUATOR.instances(0, SETTINGS)
    assert asked == shown[:6]
    assert set(asked[0]) == {"load", "slots", "groups", "gpus", "nodes"}


def test_the_trace_is_the_seeds_heavy_tailed_and_never_the_same_window_twice() -> None:
    first, again, other = (EVALUATOR.instances(seed, SETTINGS) for seed in (3, 3, 4))
    assert first == again != other
    load = np.array([instance["load"] for instance in first])
    assert load.shape == (6, 16, 256)
    assert (load.max(axis=2) > 4 * load.mean(axis=2)).all()
    assert len({json.dumps(instance) for instance in first}) == len(first)


def test_the_load_of_an_expert_is_shared_by_its_replicas_which_the_scorer_counts() -> None:
    load = np.zeros((1, 256))
    load[0, 7] = 90.0
    slots = np.array([[slot if slot < 256 else 7 for slot in range(288)]])
    carried = EVALUATOR._carried(slots, load)
    assert carried.sum() == pytest.approx(90.0)
    assert carried.max() == pytest.approx(90.0 * 9 / 33)


def reference_placement(load: list[float], groups: int, nodes: int, gpus: int, slots: int) -> list[int]:
    """DeepSeek's placement of one layer, item by item: the experts of its slots."""

    def packed(weights: list[float], packs: int) -> list[list[int]]:
        room = len(weights) // packs
        if room == 1:
            return [[item] for item in range(len(weights))]
        result: list[list[int]] = [[] for _ in range(packs)]
        for item in sorted(range(len(weights)), key=lambda item: (-weights[item], item)):
            free = [pack for pack in result if len(pack) < room]
            min(free, key=lambda pack: sum(weights[held] for held in pack)).append(item)
        return result

    size = len(load) // groups
    by_group = [sum(load[group * size : (group + 1) * size]) for group in range(groups)]
    placed: list[int] = []
    for node in packed(by_group, nodes):
        experts = [group * size + number for group in node for number in range(size)]
        held = list(experts)
        while len(held) < slots // nodes:
            held.append(max(experts, key=lambda expert: load[expert] / held.count(expert)))
        shares = [load[expert] / held.count(expert) for expert in held]
        placed += [held[slot] for gpu in packed(shares, gpus // nodes) for slot in gpu]
    return placed


def reference_balance(slots: list[int], load: list[float]) -> tuple[float, float]:
    """One layer's mean load of a slot and the greatest, as a simulation of the inference adds it up."""
    carried = [0.0] * len(slots)
    for expert, tokens in enumerate(load):
        held = [slot for slot, name in enumerate(slots) if name == expert]
        for slot in held:
            carried[slot] += tokens / len(held)
    return sum(carried) / len(carried), max(carried)


def test_deepseeks_placement_and_the_authors_balance_and_speed_are_those_of_a_plain_reference() -> None:
    settings = {**SMALL, "scoring": "published", "simulation_s": 0.3}
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec((TASK.folder / "hierarchical.py").read_text(), namespace)
    windows = [window.tolist() for window in EVALUATOR._trace(0, settings)]
    instances = EVALUATOR.instances(0, settings)
    maps = [namespace["place"](instance).tolist() for instance in instances]
    balances: list[float] = []
    for slots, window, ahead in zip(maps, windows, windows[1:], strict=False):
        assert slots == [reference_placement(layer, 8, 4, 32, 288) for layer in window]
        pairs = [reference_balance(*layer) for layer in zip(slots, ahead, strict=True)]
        balances.append(sum(mean for mean, _ in pairs) / sum(most for _, most in pairs))
    found = score(maps, settings, [0.1 * 2 / 58, 0.3 * 2 / 58])
    assert found["balancedness"] == pytest.approx(sum(balances) / len(balances), abs=1e-9)
    assert found["speed"] == pytest.approx(0.02 / (0.2 + 0.3), abs=1e-9)
    assert found["score"] == pytest.approx((found["balancedness"] + found["speed"]) / 2, abs=1e-9)
    assert found["groups_on_one_node"] == 1.0


def test_as_published_no_placement_is_faster_than_the_simulation_and_speed_has_no_other_limit() -> None:
    published = {**SMALL, "scoring": "published"}
    assert score(striped(), published)["speed"] == pytest.approx(0.02 / 0.3, rel=1e-4)
    assert score(striped(), {**published, "simulation_s": 0.01})["speed"] == pytest.approx(2.0, rel=1e-4)
    with pytest.raises(ValueError, match="scoring must be calls or published"):
        score(striped(), {**SMALL, "scoring": "theirs"})


def in_its_block(block: str) -> str:
    """`hierarchical.py` with this text in place of its open block."""
    before, _, after = split_block((TASK.folder / "hierarchical.py").read_text())
    return before + block + after


def test_as_published_a_program_in_the_open_block_is_better_than_deepseeks_in_balance_and_in_speed() -> None:
    published = {**SETTINGS, "scoring": "published", "simulation_s": 0.3}
    _, own, _ = split_block((TASK.folder / "hierarchical.py").read_text())
    _, toolbox, _ = split_block(program_of(TASK.program, BEST))
    seconds = {"deepseek's": 0.025, "better": 0.013}  # a window of 58 layers: as measured, and twice that
    found: dict[str, dict[str, Any]] = {}
    for name, block in (("deepseek's", own), ("better", f"import heapq\n\n{toolbox}")):
        namespace: dict[str, Any] = {"__name__": "candidate"}
        exec(in_its_block(block), namespace)
        maps = [namespace["place"](instance).tolist() for instance in EVALUATOR.instances(0, published)]
        found[name] = score(maps, published, [seconds[name] * 16 / 58] * len(maps))
    balances = {name: result["balancedness"] for name, result in found.items()}
    assert balances == pytest.approx({"deepseek's": 0.1678, "better": 0.2235}, abs=1e-4)
    assert found["better"]["speed"] == pytest.approx(0.02 / 0.313) and found["deepseek's"]["speed"] < 0.0616
    assert found["better"]["score"] - found["deepseek's"]["score"] > 0.028


BREAK: dict[str, Callable[[list[Any]], object]] = {
    "more replicas than slots": lambda maps: maps[0][0].extend([5] * 288),
    "every expert in every slot": lambda maps: maps[0].__setitem__(0, [list(range(256))] * 288),
    "a mapping with claims": lambda maps: maps.__setitem__(0, {"slots": maps[0], "replicas": 999}),
    "negative": lambda maps: maps[0][0].__setitem__(256, -1),
    "beyond the last": lambda maps: maps[0][0].__setitem__(256, 256),
    "a float": lambda maps: maps[0][0].__setitem__(256, 3.0),
    "a truth value": lambda maps: maps[0][0].__setitem__(256, True),
    "text": lambda maps: maps[0][0].__setitem__(256, "3"),
    "null": lambda maps: maps[0].__setitem__(0, None),
    "an expert dropped for a second replica": lambda maps: maps[0][0].__setitem__(200, 3),
    "a slot too few": lambda maps: maps[0][0].pop(),
    "a slot too many": lambda maps: maps[0][0].append(3),
    "a layer too few": lambda maps: maps[0].pop(),
    "a layer too many": lambda maps: maps[0].append(maps[0][0]),
    "a window too few": lambda maps: maps.pop(),
}


@pytest.mark.parametrize("how", BREAK)
def test_a_map_that_is_not_allowed_scores_nothing(how: str) -> None:
    maps = striped()
    BREAK[how](maps)
    with pytest.raises(ValueError, match=r"layer|maps? "):
        score(maps, SMALL)


def test_a_map_that_is_allowed_scores_the_mean_of_balancedness_and_speed() -> None:
    found = score(striped(), SMALL, [0.0, 0.0])
    assert found["speed"] == 1.0
    assert 0.2 < found["balancedness"] < 0.6
    assert found["score"] == pytest.approx((found["balancedness"] + 1) / 2)
    assert found["speed_constant"] == 0.02


def test_the_speed_constant_is_a_setting_and_time_counts_as_for_58_layers() -> None:
    slow = [0.004 * 2 / 58, 0.04 * 2 / 58]
    assert score(striped(), SMALL, slow)["speed"] == pytest.approx((1 + 0.5) / 2)
    strict = score(striped(), {**SMALL, "speed_constant": 0.002}, slow)
    assert strict["speed"] == pytest.approx((0.5 + 0.05) / 2)
    assert strict["speed_constant"] == 0.002


def test_answering_some_windows_at_once_gains_no_more_than_their_share() -> None:
    honest = score(striped(), SMALL, [1.0, 1.0])["speed"]
    half = score(striped(), SMALL, [0.0, 1.0])["speed"]
    assert half - honest <= 0.5


def test_the_three_ways_to_compute_give_the_same_maps() -> None:
    base = {"partner": "every", "rounds": 8, "order": "falling", "domains": 2}
    slow = score(maps_of(base, SMALL), SMALL)["balancedness"]
    for engines in (ENGINES, {**ENGINES, "counter": "heap", "placer": "heap"}):
        assert score(maps_of({**base, **engines}, SMALL), SMALL)["balancedness"] == pytest.approx(slow, abs=0.01)


@pytest.mark.long
def test_every_mechanism_is_assigned_once_in_the_block_and_every_option_gives_a_map() -> None:
    assert TASK.catalogue_path is not None
    catalogue = load_catalogue(TASK.catalogue_path)
    assert 8 <= len(catalogue.mechanisms) <= 12
    assert sum(len(mechanism.options) for mechanism in catalogue.mechanisms) <= 60
    block = split_block(TASK.program)[1]
    for mechanism in catalogue.mechanisms:
        assert any(apply_edit(block, MechanismEdit(mechanism.name, option)) == block for option in mechanism.options)
        for option in mechanism.options:
            for base in ({"domains": 4}, BEST):
                found = score(maps_of({**base, mechanism.name: option}, SMALL), SMALL)
                assert math.isfinite(found["score"])


def test_the_bounds_are_what_the_seed_program_and_the_best_combination_reach() -> None:
    assert score(maps_of({}), SETTINGS, [0.03] * 6)["score"] == pytest.approx(TASK.spec.bounds.lower, abs=0.02)
    assert score(maps_of(BEST))["score"] == pytest.approx(TASK.spec.bounds.upper, abs=0.01)


def write_trace(folder: Path, records: list[Any], text: str | None = None) -> tuple[str, str]:
    """A file in the trace's format, and the beginning and end of its digest."""
    whole = json.dumps({"load_history": [{"logical_expert_load": record} for record in records]}, indent=1)
    file = folder / LOAD.FILE
    file.write_text(whole if text is None else text)
    digest = sha256(file.read_bytes()).hexdigest()
    return digest[:8], digest[-4:]


def drawn(records: int, layers: int = 2) -> np.ndarray:
    """(records, layers, 256) tokens: a few experts are busy in every record."""
    rng = np.random.default_rng(0)
    return rng.poisson(30 * rng.lognormal(0, 1, (layers, 256)), (records, layers, 256))


def test_records_are_summed_to_windows_however_the_text_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = drawn(7)
    digest = write_trace(tmp_path, records.tolist())
    for chunk in (1000, 4099, 1 << 22):
        monkeypatch.setattr(LOAD, "_CHUNK", chunk)
        LOAD.read_windows.cache_clear()
        windows = LOAD.read_windows(tmp_path, 3, 256, digest)
        assert [window.tolist() for window in windows] == [
            records[begin : begin + 3].sum(axis=0).tolist() for begin in (0, 3, 6)
        ]
    assert LOAD.read_windows(tmp_path / LOAD.FILE, 4, 256, digest)[1].tolist() == records[4:].sum(axis=0).tolist()


def test_a_run_on_the_trace_places_from_one_window_and_is_scored_on_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = write_trace(tmp_path, drawn(8).tolist())
    monkeypatch.setattr(EVALUATOR, "read_windows", partial(LOAD.read_windows, sha256=digest))
    settings = {**SETTINGS, "data": "trace", "path": str(tmp_path), "records": 2}
    windows = LOAD.read_windows(tmp_path, 2, 256, digest)
    shown = EVALUATOR.instances(0, settings)
    assert [instance["load"] for instance in shown] == [window.tolist() for window in windows[:-1]]
    assert EVALUATOR.instances(5, settings) == shown
    for edits, together in ((HIERARCHICAL, 1.0), (GLOBAL, 0.0)):
        maps = maps_of({**ENGINES, **edits}, settings)
        found = score(maps, settings)
        ahead = [EVALUATOR._carried(np.array(slots), load) for slots, load in zip(maps, windows[1:], strict=True)]
        mean, most = sum(one.mean(axis=1).sum() for one in ahead), sum(one.max(axis=1).sum() for one in ahead)
        assert found["balancedness"] == pytest.approx(mean / most)
        assert found["groups_on_one_node"] == pytest.approx(together, abs=0.05)


def test_a_global_placement_is_more_balanced_than_one_that_keeps_groups_on_their_nodes() -> None:
    hierarchical, everywhere = (score(maps_of({**ENGINES, **edits})) for edits in (HIERARCHICAL, GLOBAL))
    assert hierarchical["groups_on_one_node"] == 1.0
    assert everywhere["groups_on_one_node"] < 0.05
    assert everywhere["balancedness"] > hierarchical["balancedness"] + 0.05


def test_without_the_trace_one_sentence_says_what_to_get_and_where_to_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    trace = ("--set", "evaluation.settings.data=trace", "--set", "evaluation.settings.path=nowhere")
    said = shell.pace("run", "eplb", *trace)
    assert said.code == 2
    (sentence,) = [line for line in said.err.splitlines() if "trace" in line]
    assert sentence == (
        "pace: There is no trace of expert loads at nowhere: get expert-load.json (234 MB) from "
        f"{LOAD.SOURCE} and name the folder that holds it by --set evaluation.settings.path=FOLDER."
    )
    assert shell.files() == []


LINES: list[Any] = drawn(4).tolist()
SPOILED: dict[str, tuple[Any, str]] = {
    "another file": (None, "another file than expected .* get expert-load.json"),
    "a text that breaks off": ('{"load_history": [{"logical_expert_load": [[1', "ends before"),
    "another text": ('{"history": []}', "ends before"),
    "an empty list": ('{"load_history": []}', "0 windows"),
    "no table": ('{"load_history": [{"load": [[1]]}]}', "record 0 .* no table logical_expert_load"),
    "too few experts": ([[[1] * 255]], "record 0 .* 256 in each layer"),
    "less than nothing": ([[[-1] * 256]], "record 0 .* whole numbers"),
    "fractions": ([LINES[0], [[0.5] * 256] * 2], "record 1 .* whole numbers"),
    "another number of layers": ([LINES[0], LINES[1][:1]], "2 and of 1 layers"),
    "one window": (LINES, "1 windows of 100 records"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_trace_that_cannot_be_used_is_refused_with_the_reason(how: str, tmp_path: Path) -> None:
    content, why = SPOILED[how]
    text = content if isinstance(content, str) else None
    records = LINES if content is None or text else cast("list[Any]", content)
    digest = write_trace(tmp_path, records, text)
    given = {} if content is None else {"sha256": digest}
    with pytest.raises(ValueError, match=why):
        LOAD.read_windows(tmp_path, 100, 256, **given)


@pytest.mark.skipif(
    not (TRACE / LOAD.FILE).is_file(), reason="no trace of expert loads beside the repository or where PACE_EPLB says"
)
def test_the_recorded_trace_has_windows_to_place_from() -> None:
    settings = {**SETTINGS, "data": "trace", "path": str(TRACE)}
    assert len(EVALUATOR.instances(0, settings)) > 10
    everywhere = score(maps_of({**ENGINES, **GLOBAL}, settings), settings)
    hierarchical = score(maps_of({**ENGINES, **HIERARCHICAL}, settings), settings)
    assert 0.1 < hierarchical["balancedness"] < everywhere["balancedness"] < 1
