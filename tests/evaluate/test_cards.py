"""Evaluations with cards of their own. Plain files stand in for the device files of cards."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from typer.testing import CliRunner

from pace_async import gpus
from pace_async.cli.main import app
from pace_async.config import EvaluationConfig
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import evaluate_file, open_evaluator
from pace_async.evaluate.base import EvaluationId, EvaluationRequest, Limits, evaluate
from pace_async.evaluate.resources import Slot, resources_of
from pace_async.evaluate.sandbox.selfcheck import check_tier, refuse_unless_owned
from pace_async.evaluate.sandbox.tiers import NoSandbox, Tier
from pace_async.gpus import Card, find_cards
from pace_async.runtime.children import cards as children
from pace_async.runtime.children.cards import taken_cards
from pace_async.task import Task
from tests.evaluate.sandbox.tiers import TIERS
from tests.support.command_tasks import make_command_task
from tests.support.evaluate_tasks import make_task
from tests.support.process_tasks import make_process_task

NO_CARDS: list[list[str]] = [[], []]
INFORMATION = """Model: \t\t NVIDIA {model}
IRQ:   \t\t 0
GPU UUID: \t {uuid}
Device Minor: \t {minor}
"""
FIRST = """
def instances(seed):
    return [0]
def score(instances, outputs):
    return {"score": outputs[0]}
"""
OPENS = """
    import os
    # EVOLVE-BLOCK-START
    # EVOLVE-BLOCK-END
    def f(value):
        def opens(name):
            try:
                os.close(os.open(name, os.O_RDWR))
            except OSError:
                return 0
            return 1
        return 100 * int(os.environ["CUDA_VISIBLE_DEVICES"]) + sum(opens(name) for name in NODES)
"""


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of device files, open to every user as /dev is: two cards, and their driver's."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="pace-cards-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        _fill(folder, tmp_path, monkeypatch)
        yield folder


def _fill(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (folder / name).touch()
        (folder / name).chmod(0o666)
    monkeypatch.setattr(gpus, "DEVICES", folder)
    monkeypatch.setattr(gpus, "DRIVER", tmp_path / "driver")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def config(slots: int = 1) -> EvaluationConfig:
    return EvaluationConfig(slots=slots, retries=0, warm=False)


def names(slots: Sequence[Slot]) -> list[list[str]]:
    return [[card.name for card in slot.cards] for slot in slots]


def with_gpus(task: Task, wanted: float, *, required: bool = True) -> Task:
    return replace(task, spec=task.spec.model_copy(update={"gpus": wanted, "gpus_required": required}))


def told(folder: Path, minor: int, uuid: str) -> None:
    """What the driver says of a card."""
    place = folder / f"0000:{minor}b:00.0"
    place.mkdir(parents=True)
    (place / "information").write_text(INFORMATION.format(model="H200", uuid=uuid, minor=minor))


def test_cards_are_the_numbered_device_files_with_what_the_driver_tells_of_them(
    devices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (devices / "nvidia10").touch()
    told(tmp_path / "driver", 1, "GPU-5a5a")
    told(tmp_path / "driver", 10, "GPU-??-??")
    found = find_cards()
    assert [card.node.name for card in found] == ["nvidia0", "nvidia1", "nvidia10"]
    assert found[1] == Card("1", devices / "nvidia1", "GPU-5a5a", "NVIDIA H200")
    assert found[2].uuid == ""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-5a,MIG-77,2")
    assert [card.name for card in find_cards()] == ["2", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert find_cards() == ()


def test_a_card_given_to_a_container_alone_is_its_first(devices: Path) -> None:
    (devices / "nvidia0").unlink()
    assert find_cards() == (Card("0", devices / "nvidia1"),)


@pytest.mark.parametrize(
    ("wanted", "slots", "owned"),
    [
        (1, 1, [["0"]]),
        (1, 2, [["0"], ["1"]]),
        (2, 1, [["0", "1"]]),
        (0.5, 2, [["0"], ["1"]]),
        (0.5, 4, [["0"], ["1"], ["0"], ["1"]]),
        (0, 2, NO_CARDS),
    ],
)
@pytest.mark.usefixtures("devices")
def test_each_slot_owns_its_cards(tmp_path: Path, wanted: float, slots: int, owned: list[list[str]]) -> None:
    task = with_gpus(make_command_task(tmp_path / "task"), wanted)
    assert names(resources_of(task, config(slots)).slots) == owned


@pytest.mark.parametrize(
    ("wanted", "slots", "taken", "said"),
    [
        (1, 3, {}, "needs a GPU for each of 3 evaluations at once, and 2 of 2 cards are free: lower evaluation.slots"),
        (1, 2, {"0": "the learner"}, "and 1 of 2 cards is free, because of the learner: lower"),
        (4, 1, {}, "needs 4 GPUs for each of 1 evaluations at once, and 2 of 2 cards are free"),
        (0.5, 5, {}, "needs a share of a GPU for each of 5"),
        (
            1,
            1,
            {"0": "the learner", "1": "the engine"},
            "0 of 2 cards are free, because of the learner and the engine",
        ),
    ],
)
@pytest.mark.usefixtures("devices")
def test_a_card_that_is_taken_is_refused_in_one_sentence(
    tmp_path: Path, wanted: float, slots: int, taken: dict[str, str], said: str
) -> None:
    task = with_gpus(make_command_task(tmp_path / "task"), wanted)
    with pytest.raises(UsageError, match=said):
        resources_of(task, config(slots), taken)


def test_a_machine_without_a_card_refuses_a_task_that_needs_one(tmp_path: Path) -> None:
    task = with_gpus(make_command_task(tmp_path / "task"), 1)
    with pytest.raises(
        UsageError, match="needs a GPU for each evaluation, and pace sees none here: evaluate elsewhere"
    ):
        resources_of(task, config(), cards=())


@pytest.mark.usefixtures("devices")
def test_a_task_that_also_runs_without_a_card_takes_those_there_are(tmp_path: Path) -> None:
    task = with_gpus(make_command_task(tmp_path / "task"), 1, required=False)
    assert resources_of(task, config(2), cards=()).slots == (Slot(), Slot())
    assert "no GPU" in resources_of(task, config(2), cards=()).in_words()
    assert names(resources_of(task, config(2), {"0": "the engine"}).slots) == [["1"]]
    assert EvaluationRequest.of(task.spec, EvaluationId("run", 1), "", 0).needs.gpus == 0


def test_another_card_is_another_identity(devices: Path, tmp_path: Path) -> None:
    task = with_gpus(make_command_task(tmp_path / "task"), 1)
    before = resources_of(task, config()).identity
    told(tmp_path / "driver", 0, "GPU-5a")
    assert (before, resources_of(task, config()).identity) == ("gpus-1-GPU", "gpus-1-NVIDIA_H200")


def test_cuda_gets_the_most_reliable_name_of_each_card(tmp_path: Path) -> None:
    known, unknown = Card("3", tmp_path, "GPU-5a"), Card("2", tmp_path)
    assert Slot(cards=(known,)).variables(alone=True)["CUDA_VISIBLE_DEVICES"] == "GPU-5a"
    assert Slot(cards=(unknown,)).variables(alone=True)["CUDA_VISIBLE_DEVICES"] == "0"
    assert Slot(cards=(unknown, known)).variables(alone=False)["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_with_a_card_memory_is_limited_as_used_and_not_as_addresses(tmp_path: Path) -> None:
    limits = Limits(10.0, 256, 1 << 20)
    given = Slot(cards=(Card("0", tmp_path / "nvidia0"),)).limits(limits)
    assert limits.address_space
    assert not given.address_space
    assert given.devices[0] == tmp_path / "nvidia0"
    assert given.processor_limit_s >= limits.processor_limit_s


@pytest.mark.parametrize("tier", TIERS)
async def test_an_evaluation_opens_its_own_card_and_no_other(tier: Tier, devices: Path, tmp_path: Path) -> None:
    nodes = [str(devices / name) for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null")]
    task = with_gpus(make_task(tmp_path / "opens", FIRST), 1)
    program = dedent(OPENS).replace("NODES", repr(nodes))
    task = replace(task, program=program)
    async with open_evaluator(task, config(2), tier=tier) as evaluator:
        request = EvaluationRequest.of(task.spec, EvaluationId("run", 1), program, 0)
        found = await evaluate(evaluator, request)
        assert (found.outcome, found.score) == ("ok", 3), found  # its card and two files of the driver
        with pytest.raises(UsageError, match="gets 1 GPUs here"):
            await evaluator.submit(replace(request, id=EvaluationId("run", 2), needs=replace(request.needs, gpus=2)))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.usefixtures("devices")
async def test_a_candidate_without_a_card_reaches_none(tier: Tier) -> None:
    assert "cards" not in (await check_tier(tier)).gaps


@pytest.mark.usefixtures("devices")
async def test_the_self_check_finds_cards_that_a_tier_leaves_open() -> None:
    assert "cards" in (await check_tier(NoSandbox())).gaps


@pytest.mark.parametrize("tier", TIERS)
async def test_a_card_that_cannot_be_opened_is_found_before_the_run(tier: Tier, devices: Path) -> None:
    missing = replace(Limits(10.0, 256, 1 << 16), devices=(devices / "nvidia0",))
    await refuse_unless_owned(tier, [missing])
    (devices / "nvidia0").chmod(0o600)
    with pytest.raises(UsageError, match=r"An evaluation cannot open its GPU in the sandbox \(.*nvidia0\)"):
        await refuse_unless_owned(tier, [missing])


async def test_commands_and_processes_get_their_card_too(devices: Path, tmp_path: Path) -> None:
    shell = f"""
        [ -w {devices}/nvidia0 ] && [ ! -e {devices}/nvidia1 ] || exit 9
        echo "{{\\"combined_score\\": $CUDA_VISIBLE_DEVICES}}" > "$2/metrics.json"
    """
    command = with_gpus(make_command_task(tmp_path / "command", shell), 1)
    lines = "# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-END\nimport os, sys\nfor line in sys.stdin:\n"
    lines += f"    print(int(not os.access('{devices}/nvidia0', os.W_OK)), flush=True)\n"
    process = make_process_task(
        tmp_path / "process", lines, language="python", build=(), run=["python3", "initial.py"], evaluator=FIRST
    )
    for task in (command, with_gpus(process, 1)):
        found = await evaluate_file(task, task.program, config(2))
        assert (found.outcome, found.score) == ("ok", 0), found


@pytest.mark.usefixtures("devices")
async def test_a_task_that_scores_time_gets_no_card(tmp_path: Path) -> None:
    timed = "def instances(seed):\n    return [1]\ndef score(instances, outputs, seconds):\n    return {'score': 1}\n"
    task = with_gpus(make_task(tmp_path / "timed", timed, deterministic=False), 1)
    with pytest.raises(UsageError, match="scores time, and the work of a GPU is not counted in it"):
        async with open_evaluator(task, config()):
            pass


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize(
    ("torch", "changed", "taken"),
    [
        ("2.13.0+cpu", {}, {}),
        ("2.13.0", {}, {"0": "the learner and the engine"}),
        ("2.13.0", {"learner.objective": "none"}, {"0": "the engine"}),
        ("2.13.0", {"advisor.engine": "http://127.0.0.1:8000"}, {"0": "the learner"}),
    ],
)
def test_learner_and_engine_own_the_first_card_unless_they_compute_on_the_processor(
    monkeypatch: pytest.MonkeyPatch, torch: str, changed: dict[str, object], taken: dict[str, str]
) -> None:

    def installed(_: str) -> str:
        return torch

    monkeypatch.setattr(children, "version", installed)
    assert taken_cards(resolve(None, changed, environment={})) == taken


def test_doctor_and_a_dry_run_name_the_cards_found_or_say_that_there_is_none(
    devices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(tmp_path / "driver", 1, "GPU-5a")
    monkeypatch.setattr(children, "_torch_has_cuda", lambda: True)
    seen = CliRunner().invoke(app, ["doctor", "--json"])
    cards = next(one for one in json.loads(seen.stdout) if one["check"] == "cards")
    both = f"2 NVIDIA cards: {devices}/nvidia0, {devices}/nvidia1 (NVIDIA H200)"
    assert (cards["ok"], cards["found"]) == (True, both)
    said = CliRunner().invoke(app, ["run", "circle_packing", "--dry-run", "--json"])
    assert json.loads(said.stdout)["plan"]["cards"] == f"{both}; card 0 goes to the learner and the engine"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    said = CliRunner().invoke(app, ["run", "circle_packing", "--dry-run", "--json"])
    assert json.loads(said.stdout)["plan"]["cards"] == "no NVIDIA card that CUDA_VISIBLE_DEVICES shows"
