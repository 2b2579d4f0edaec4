"""What a user watches next: the split, ranks with ties, what is refused, the loader, and a model that learns."""

import base64
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.task import CHEATS, load_task, split_block
from tests.doubles.evaluators import scored
from tests.support.modules import load

TASK = load_task("kuairec")
sys.path.insert(0, str(TASK.folder))
EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "kuairec_evaluator")
INTERACTIONS, WATCHING = sys.modules["interactions"], sys.modules["watching"]
sys.path.remove(str(TASK.folder))
SMALL = {**TASK.spec.settings, "data": "synthetic", "users": 200, "history": 24, "width": 16, "blocks": 1}
TINY = {**SMALL, "users": 30, "width": 8, "epochs": 1}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As in the sandbox."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def instances(settings: dict[str, Any]) -> list[Any]:
    return json.loads(json.dumps(EVALUATOR.instances(0, settings)))


def namespace_of(program: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program, namespace)
    return namespace


def other(file: str) -> Callable[[Any], str]:
    """The entry of another program of the task."""
    return namespace_of((TASK.folder / file).read_text())["recommend"]


def score(output: object, settings: dict[str, Any] = TINY) -> dict[str, float]:
    return EVALUATOR.score(EVALUATOR.instances(0, settings), [output], 0, settings)


def packed(scores: Any) -> str:
    return base64.b64encode(np.asarray(scores, "<f2").tobytes()).decode()


def numbers(text: str, kind: str) -> list[int]:
    return np.frombuffer(base64.b64decode(text), kind).tolist()


def truth() -> Any:
    """Known to the scorer only: item numbers from 1."""
    return EVALUATOR._split(0, TINY).truth


def perfect() -> Any:
    """(users, items): 1 for the item to be found, 0 for the others."""
    found = np.zeros((len(truth()), EVALUATOR._split(0, TINY).catalogue))
    found[np.arange(len(found)), truth() - 1] = 1.0
    return found


def test_the_last_of_each_user_is_held_out_and_the_latest_before_it_are_for_training() -> None:
    rows = [(7, 50, 4), (7, 30, 1), (7, 40, 2), (7, 40, 2), (7, 60, 3), (7, 90, 5)]
    rows += [(3, 30, 9), (3, 90, 8), (3, 90, 7), (3, 40, 6), (5, 50, 1), (5, 60, 2), (5, 30, 3)]
    found = INTERACTIONS.split(INTERACTIONS.Log(*np.array(rows).T), history=3, users=0, seed=0)
    assert found.catalogue == 5  # 30, 40, 50, 60 and 90 are 1 to 5
    assert found.length.tolist() == [3, 3]  # user 5 has too few
    assert found.item.tolist() == [2, 5, 5, 2, 4, 3]
    assert found.time.tolist() == [6, 7, 8, 2, 3, 4]
    assert found.truth.tolist() == [1, 5]
    few = [(user, item, item) for user in range(9) for item in range(5)]
    drawn = [INTERACTIONS.split(INTERACTIONS.Log(*np.array(few).T), 4, 6, seed) for seed in (0, 0, 1)]
    assert [len(one.truth) for one in drawn] == [6, 6, 6]
    with pytest.raises(ValueError, match="1 users with at least 4"):
        INTERACTIONS.split(INTERACTIONS.Log(*np.array(few[:6]).T), 4, 0, 0)


def test_an_instance_says_what_was_watched_but_not_what_came_last() -> None:
    (instance,) = instances(TINY)
    log = WATCHING.watched(0, TINY["users"])
    number = {name: k + 1 for k, name in enumerate(np.unique(log.item).tolist())}
    assert set(instance) == {
        *("catalogue", "lengths", "items", "times"),
        "epochs",
        "history",
        "width",
        "blocks",
    }
    lengths, items, times = (numbers(instance[name], kind) for name, kind in KINDS)
    assert instance["catalogue"] == len(number)
    begin = 0
    for user, length in enumerate(lengths):
        mine = sorted(zip(log.time[log.user == user].tolist(), log.item[log.user == user].tolist(), strict=True))
        part = slice(begin, begin + length)
        assert [number[item] for _, item in mine[:-1]][-24:] == items[part]
        assert [time for time, _ in mine[:-1]][-24:] == times[part]
        assert number[mine[-1][1]] == truth()[user]
        assert mine[-1][0] > max(times[part])
        begin += length
    assert begin == len(items) == len(times)


KINDS = (("lengths", "<u2"), ("items", "<u2"), ("times", "<u4"))


def test_the_synthetic_set_is_its_seeds_and_the_sizes_are_the_papers_for_the_real_one() -> None:
    first, again, other = (EVALUATOR.instances(seed, TINY) for seed in (3, 3, 4))
    assert first == again != other
    paper = {**TASK.spec.settings, "history": 0, "width": 0, "blocks": 0}
    assert EVALUATOR._sizes(paper) == {"history": 1024, "width": 128, "blocks": 4}
    assert EVALUATOR._sizes({**paper, "width": 64})["width"] == 64
    with pytest.raises(ValueError, match="real or synthetic"):
        EVALUATOR.instances(0, {**TINY, "data": "other"})


def test_a_tie_ranks_the_item_to_be_found_last_of_those_it_ties_with() -> None:
    scores = np.array([[3, 1, 2, 0], [3, 3, 3, 0], [0, 0, 0, 1], [9, 7, 8, 7]], "<f2")
    assert EVALUATOR._ranks(scores, np.array([2, 1, 0, 1])).tolist() == [2, 3, 4, 4]


def test_metrics_follow_from_the_rank_among_the_whole_catalogue() -> None:
    assert score(packed(perfect()))["score"] == 1.0
    ahead = np.zeros_like(perfect()[0])
    ahead[:4] = 2.0  # at most four items before it, fewer where it is one of them
    rank = np.where(truth() <= 4, 4, 5)
    found = score(packed(np.maximum(perfect(), ahead)))
    assert found["ndcg_10"] == pytest.approx(np.mean(1 / np.log2(1 + rank)))
    assert (found["hr_10"], found["mrr"]) == (1.0, pytest.approx(np.mean(1 / rank)))
    assert found["score"] == pytest.approx((found["ndcg_10"] + 1.0 + found["mrr"]) / 3)
    ahead[:40] = 2.0
    found = score(packed(np.maximum(perfect(), ahead)))
    assert found["hr_50"] == 1.0 > found["hr_10"] == found["ndcg_10"] == 0.0


def test_the_published_protocol_leaves_out_what_was_seen_and_keeps_what_is_to_be_found() -> None:
    scores = np.array([[3, 1, 2, 0], [1, 2, 2, 2]], "<f2")
    seen = np.array([[True, True, False, False], [False, True, True, False]])
    assert EVALUATOR._ranks(scores, np.array([1, 1])).tolist() == [3, 3]
    assert EVALUATOR._ranks(scores, np.array([1, 1]), seen).tolist() == [2, 2]
    published = {**TINY, "protocol": "published"}
    split = EVALUATOR._split(0, published)
    ahead = np.zeros((len(split.truth), split.catalogue))
    begin = 0
    for user, length in enumerate(split.length):
        ahead[user, split.item[begin : begin + length] - 1] = 2.0
        begin += length
    ahead[np.arange(len(ahead)), split.truth - 1] = 1.0
    assert score(packed(ahead), published)["score"] == 1.0
    with pytest.raises(ValueError, match="whole or published"):
        EVALUATOR.instances(0, {**TINY, "protocol": "other"})


def test_a_five_core_has_only_users_and_items_with_five_interactions_each() -> None:
    rows = [(user, item, 10 * item + user) for user in range(5) for item in range(5)]
    rows += [(5, item, item) for item in (0, 1, 2, 3, 9)]  # item 9 has one, and without it user 5 has four
    found = INTERACTIONS.of_cores(INTERACTIONS.Log(*np.array(rows).T))
    assert sorted(set(found.user.tolist())) == sorted(set(found.item.tolist())) == [0, 1, 2, 3, 4]
    assert len(found.time) == 25
    whole, core = (EVALUATOR._split(0, {**TINY, "protocol": protocol}) for protocol in ("whole", "published"))
    assert core.catalogue < whole.catalogue


def broken(change: Callable[[Any], object]) -> str:
    scores = perfect()
    change(scores)
    return packed(scores)


REFUSED: dict[str, Callable[[], object]] = {
    "all the same": lambda: packed(np.full_like(perfect(), 0.5)),
    "all the same for one user": lambda: broken(lambda scores: scores.__setitem__(3, 0.25)),
    "no numbers": lambda: packed(np.full_like(perfect(), np.nan)),
    "one that is no number": lambda: broken(lambda scores: scores.__setitem__((2, 5), np.nan)),
    "one that is infinite": lambda: broken(lambda scores: scores.__setitem__((2, 5), np.inf)),
    "one that is minus infinity": lambda: broken(lambda scores: scores.__setitem__((2, 5), -np.inf)),
    "one user too few": lambda: packed(perfect()[1:]),
    "one item too many": lambda: packed(np.pad(perfect(), ((0, 0), (0, 1)))),
    "no base64": lambda: "ß" * 8,
    "numbers": lambda: perfect().tolist(),
    "nothing": lambda: None,
}


@pytest.mark.parametrize("how", REFUSED)
def test_scores_that_are_not_allowed_score_nothing(how: str) -> None:
    with pytest.raises(ValueError, match=r"scores?"):
        score(REFUSED[how]())


@pytest.mark.parametrize("name", ["constant", "not_a_number"])
def test_programs_that_lived_on_ties_are_refused(name: str) -> None:
    (instance,) = instances(TINY)
    with pytest.raises(ValueError, match="score"):
        score(other(f"{CHEATS}/{name}.py")(instance))


def test_scores_that_are_the_same_for_all_items_but_one_earn_next_to_nothing() -> None:
    tied = np.ones_like(perfect())
    tied[:, -1] = 0.0
    assert score(packed(tied))["score"] < 0.001
    (instance,) = instances(SMALL)
    assert score(other("popularity.py")(instance), SMALL)["score"] > 0.03


@pytest.mark.long
@pytest.mark.nightly
def test_the_seed_program_learns_more_than_popularity_on_a_small_set() -> None:
    (instance,) = instances(SMALL)
    namespace = namespace_of(TASK.program)
    namespace["RATE"] = 5e-3  # so few steps
    found = score(namespace["recommend"](instance), SMALL)["score"]
    assert found > 1.2 * score(other("popularity.py")(instance), SMALL)["score"]


def test_the_authors_program_differs_in_dropout_and_training_alone() -> None:
    before, block, _ = split_block(TASK.program)
    authors = split_block((TASK.folder / "published.py").read_text())
    assert authors[1] == block.replace("DROPOUT = 0.2", "DROPOUT = 0.5") != block
    assert authors[0].splitlines()[1:] == before.splitlines()[1:]
    namespace = namespace_of("".join(authors))
    assert (namespace["BATCH"], namespace["RATE"]) == (128, 1e-3)
    rates = [namespace["scheduled"](step, 200) for step in range(1, 201)]
    assert rates[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert rates[105] == pytest.approx(0.5, abs=0.01)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[-1] < 1e-3


def test_the_authors_program_trains_one_target_a_user() -> None:
    (instance,) = instances({**TINY, "protocol": "published"})
    namespace = namespace_of((TASK.folder / "published.py").read_text())
    softmax, targets = namespace["sampled_softmax"], list[int]()

    def counted(model: Any, users: Any, target: Any, catalogue: int) -> Any:
        targets.extend(target.tolist())
        return softmax(model, users, target, catalogue)

    namespace["sampled_softmax"] = counted
    output = namespace["recommend"](instance)
    items, _, lengths = namespace["histories"](instance)
    assert sorted(targets) == sorted(items[torch.arange(len(lengths)), lengths - 1].tolist())
    assert score(output, {**TINY, "protocol": "published"})["users"] == len(lengths)


@torch.no_grad()
def test_no_position_sees_a_later_one_and_chunks_change_nothing() -> None:
    namespace = namespace_of(TASK.program)
    torch.manual_seed(1)
    model = namespace["Recommender"](50, 20, 8, 2).eval()
    items = torch.randint(1, 51, (3, 20))
    times = 1_594_000_000 + torch.randint(1, 9000, (3, 20)).cumsum(1)
    whole = model(items, times)
    items[:, 13:], times[:, 13:] = 7, times[:, 13:] + 86_400
    assert torch.allclose(model(items, times)[:, :13], whole[:, :13], atol=1e-5)
    assert not torch.allclose(model(items, times)[:, 13:], whole[:, 13:], atol=1e-2)
    namespace["CHUNK"] = 6
    short = model(items, times)
    namespace["CHUNK"] = 128
    assert torch.allclose(short, model(items, times), atol=1e-4)
    every = torch.arange(1, 51)
    users = short[:, -1]
    assert torch.allclose(model.score(users, every), model.score(users, every.repeat(3, 1)), atol=1e-5)


HEADER = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio"


def write_matrix(folder: Path, header: str = HEADER, last: str = "") -> None:
    """A file like KuaiRec's with 12 users and 20 items."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{user},{(user + 3 * k) % 20},{k},9,2020-07-05 05:27:48.378,20200705,{1_593_878_903 + 60 * k}.25,0.5"
        for user in range(12)
        for k in range(20)
    ]
    (folder / "big_matrix.csv").write_text("\n".join([header, *rows, last]).rstrip("\n") + "\n")


@pytest.mark.parametrize("below", ["", "KuaiRec 2.0/data"])
def test_the_real_file_is_read_where_it_is_unpacked(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"USERS": 12, "ITEMS": 20, "ROWS": 240}.items():
        monkeypatch.setattr(INTERACTIONS, name, value)
    write_matrix(tmp_path / below)
    (instance,) = EVALUATOR.instances(0, {**TASK.spec.settings, "path": str(tmp_path), "history": 8})
    lengths, items, times = (numbers(instance[name], kind) for name, kind in KINDS)
    assert (instance["catalogue"], lengths) == (20, [8] * 12)
    assert items[:8] == [(3 * k) % 20 + 1 for k in range(11, 19)]
    assert times[:8] == [1_593_878_903 + 60 * k for k in range(11, 19)]


@pytest.mark.parametrize(
    ("header", "last", "why"),
    [
        (HEADER, "", r"12 users, 20 items and 240 rows, not 7176, 10728 .* was cut short"),
        (HEADER.replace("timestamp", "when"), "", "no column timestamp"),
        (HEADER, "1,2,3", "cannot be read"),
        (HEADER, "1,2,3,4,5,6,never,8", "cannot be read"),
    ],
)
def test_a_file_that_is_not_the_real_one_is_refused(tmp_path: Path, header: str, last: str, why: str) -> None:
    write_matrix(tmp_path, header, last)
    with pytest.raises(ValueError, match=rf"big_matrix.csv .*{why}.*: get KuaiRec.zip from https://"):
        INTERACTIONS.read(tmp_path)


async def evaluate(program: str, settings: dict[str, Any], log: Path) -> Evaluation:
    tier = await pick_tier(False)
    cold = EvaluationConfig(settings=settings, warm=False)
    async with open_evaluator(TASK, cold, tier=tier, log=log) as evaluator:
        return await scored(evaluator, program, 0)


HUNT = """
import os

def recommend(instance):
    for folder in PLACES:
        for here, below, files in os.walk(folder):
            below[:] = [name for name in below if name != "site-packages"]  # an environment may lie below /tmp
            if found := {"interactions.py", "watching.py", "big_matrix.csv"} & set(files):
                raise LookupError(f"{here} holds {found}")
    for name in ("interactions", "watching", "evaluator"):
        try:
            __import__(name)
        except ImportError:
            continue
        raise LookupError(f"{name} can be imported")
    return "nothing"
"""


async def test_a_program_that_looks_for_the_answers_does_not_find_them(tmp_path: Path) -> None:
    write_matrix(tmp_path)
    hunt = f"PLACES = {[str(tmp_path), str(TASK.folder), '/tmp', '/proc/self/cwd', '/proc/1/cwd']!r}\n{HUNT}"
    found = await evaluate(hunt, {**TINY, "path": str(tmp_path)}, tmp_path / "log")
    assert found.outcome == "invalid_score", found.detail  # it has looked everywhere and answers nothing
    with pytest.raises(LookupError, match="big_matrix"):  # the same program where nothing keeps it from the file
        namespace_of(f"PLACES = {[str(tmp_path)]!r}\n{HUNT}")["recommend"](None)


async def test_a_model_of_constant_scores_or_of_nan_scores_nothing_in_the_sandbox(tmp_path: Path) -> None:
    tier = await pick_tier(False)
    async with open_evaluator(TASK, EvaluationConfig(settings=TINY), tier=tier, log=tmp_path / "log") as evaluator:
        for factor, why in (("", ""), ("0 * ", "the same for a user"), ("float('nan') * ", "no finite number")):
            program = TASK.program.replace("return users @ found.T", f"return {factor}(users @ found.T)")
            assert program != TASK.program
            found = await scored(evaluator, program, 0)
            assert found.outcome == ("invalid_score" if why else "ok"), found.detail
            assert why in found.detail
            assert (found.score is None) == bool(why)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_the_seed_program_beats_popularity_twice_on_the_whole_synthetic_set(tmp_path: Path) -> None:
    settings = {**TASK.spec.settings, "data": "synthetic"}
    found = await evaluate(TASK.program, settings, tmp_path / "log")
    assert found.outcome == "ok", found.detail
    popular = score(other("popularity.py")(instances(settings)[0]), settings)
    assert found.score is not None
    assert found.score > 2 * popular["score"]
    assert found.metrics["ndcg_10"] > 2 * popular["ndcg_10"]
