"""Chat and thinking models: questions go through the template, answers end with their turn, thinking is not parsed."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import httpx
import pytest
import torch

from pace_async.advise.advisor import Sampling, ServedAdvisor
from pace_async.advise.chat import ChatFormat, TextFormat, chat_format_of, template_of, thinks
from pace_async.advise.client import HttpEngine, special_token_ids
from pace_async.advise.engines.server import build_app
from pace_async.config import Config
from pace_async.config.advisor import AdvisorConfig
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import load_trainer
from pace_async.publish.file import FilePublisher
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.runtime.children.advisor_choice import with_advisor
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.task import load_task
from tests.doubles.engine_servers import EngineServer
from tests.doubles.engines import ScriptedEngine
from tests.support.chat_models import (
    OPENED,
    SWITCHED,
    TURNS,
    VOCABULARY,
    qwen3,
    qwen3_5,
    save_chat_model,
    tokenizer_of,
)

TEMPLATES = pytest.mark.parametrize("template", [SWITCHED, OPENED], ids=["switched", "opened"])


@asynccontextmanager
async def engine_of(template: str, chat: ChatFormat | None, special: bool = False) -> AsyncGenerator[HttpEngine]:
    """The embedded server without a model: only its tokenizer is asked."""
    tokenizer = tokenizer_of(template, special)
    app = build_app(
        Mock(spec=["resume", "start_update"]), tokenizer, name="chat", vocabulary=VOCABULARY, max_model_len=2048
    )
    transport = httpx.ASGITransport(cast("Any", app))
    specials = [id_ for id_, token in tokenizer.added_tokens_decoder.items() if token.special]
    async with HttpEngine("http://engine", transport=transport, text=TextFormat(specials, chat)) as engine:
        yield engine


@TEMPLATES
@pytest.mark.parametrize("thinking", [None, False])
async def test_a_question_is_what_the_models_own_template_makes_of_it(template: str, thinking: bool | None) -> None:
    switch = {} if thinking is None else {"enable_thinking": thinking}
    async with engine_of(template, ChatFormat(switch)) as engine:
        ids = await engine.encode("Which idea?\n    x = 1\n")
    tokenizer = tokenizer_of(template)
    messages = [{"role": "user", "content": "Which idea?\n    x = 1\n"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **switch)
    assert tokenizer.decode(ids) == text
    assert ("<think>" in str(text)) == (template == OPENED or thinking is False)


@TEMPLATES
async def test_the_spelling_of_a_turns_end_in_a_question_is_ordinary_text(template: str) -> None:
    mark = TURNS[template]
    text = f"# a program{mark} says <|im_start|> here"
    async with engine_of(template, ChatFormat()) as engine:
        ids = await engine.encode(text)
        frame = await engine.encode("")
    tokenizer = tokenizer_of(template)
    special = {tokenizer.convert_tokens_to_ids(mark), *tokenizer.all_special_ids, *(258, 259, 260, 261, 262)}
    assert [token for token in ids if token in special] == [token for token in frame if token in special]
    assert text in tokenizer.decode(ids)


@TEMPLATES
@pytest.mark.parametrize("special", [True, False], ids=["special", "plain"])
async def test_decoded_text_keeps_the_end_of_thinking_whatever_kind_of_token_it_is(
    template: str, special: bool
) -> None:
    answer = f"it may be\n</think>\n\nIdea 1{TURNS[template]}"
    ids = tuple(tokenizer_of(template, special).encode(answer))
    async with engine_of(template, ChatFormat(), special) as engine:
        assert await engine.decode(ids) == "it may be\n</think>\n\nIdea 1"


@pytest.mark.parametrize(
    ("answer", "mark", "text"),
    [
        ("hm</think> no</think>Idea 1", "</think>", "Idea 1"),
        ("Idea 1", "</think>", "Idea 1"),
        ("hm</think>Idea 1", "[done]", "hm</think>Idea 1"),
        ("hm[done]Idea 1", "[done]", "Idea 1"),
    ],
)
async def test_thinking_is_not_parsed_and_every_token_of_it_is_in_the_call(answer: str, mark: str, text: str) -> None:
    advisor = ServedAdvisor(ScriptedEngine(answer), mark)
    call, _ = await advisor.ask(Sampling(seed=0).prompt(1, "propose", "What?"))
    assert call.text == text
    assert bytes(call.completion_ids).decode() == answer
    assert len(call.logprobs) == len(answer)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_chat_model(tmp_path_factory.mktemp("chat") / "weights", SWITCHED)


@pytest.fixture(scope="module")
def server(weights: Path) -> Iterator[EngineServer]:
    server = EngineServer(weights)
    yield server
    server.kill()


@pytest.mark.long
@pytest.mark.nightly
async def test_an_answer_ends_with_its_turn_though_the_models_configuration_does_not_name_that_token(
    server: EngineServer, weights: Path
) -> None:
    special = special_token_ids(weights)
    async with FilePublisher(server.url) as publisher:
        await publisher.publish(1, weights)
    async with HttpEngine(server.url, text=TextFormat(special, ChatFormat()), timeout_s=60.0) as engine:
        prompt = await engine.encode("What?")
        answers = [await engine.generate(prompt, max_tokens=300, temperature=1.0, seed=seed) for seed in range(6)]
    turn = tokenizer_of(SWITCHED).convert_tokens_to_ids("<|im_end|>")
    assert all(turn not in answer.token_ids[:-1] for answer in answers)
    assert {answer.token_ids[-1] for answer in answers if answer.finish == "stop"} == {turn}
    async with HttpEngine(server.url, text=TextFormat(special), timeout_s=60.0) as raw:
        plain = [await raw.generate(prompt, max_tokens=300, temperature=1.0, seed=seed) for seed in range(6)]
    assert any(turn in answer.token_ids[:-1] for answer in plain), "without its template it goes on past its turn"


@pytest.mark.parametrize("architecture", [qwen3, qwen3_5])
@TEMPLATES
async def test_what_a_chat_model_sampled_is_trained_from_its_thinking_to_the_end_of_its_turn(
    architecture: Any, template: str, tmp_path: Path
) -> None:
    folder = save_chat_model(tmp_path / "model", template, model=architecture(1))
    trainer = load_trainer(folder, TrainerConfig(learning_rate=1e-3, micro_tokens=400), tmp_path / "out")
    async with engine_of(template, ChatFormat()) as engine:
        prompt = await engine.encode("What?")
    answer = tokenizer_of(template).encode(f"hm\n</think>\n\nIdea 1{TURNS[template]}")
    logprobs = tuple(trainer.logprobs(list(prompt), answer))
    call = TrainedCall(prompt, tuple(answer), logprobs, (0,) * len(answer))
    rollouts = tuple(TrainedRollout(lease, advantage, 0.0, (call,)) for lease, advantage in ((1, 1.0), (2, -0.5)))
    group = Group(1, 0, "grpo", 0.0, 0, rollouts)
    assert group.tokens == 2 * len(answer)
    assert trainer.step(group).reason == ""
    moved = torch.tensor(trainer.logprobs(list(prompt), answer)) - torch.tensor(logprobs)
    assert bool((moved.abs() > 0).all())
    assert float(moved.mean()) > 0, "the sum of the advantages is above 0"


def test_a_folder_says_whether_there_is_a_template_and_whether_the_model_thinks(tmp_path: Path) -> None:
    chat = save_chat_model(tmp_path / "chat", OPENED)
    assert template_of(chat) == OPENED
    assert template_of(TINY) is None
    assert chat_format_of(AdvisorConfig(), TINY) is None
    assert chat_format_of(AdvisorConfig(chat_template=False), chat) is None
    assert thinks(AdvisorConfig(), chat)
    assert not thinks(AdvisorConfig(thinking=False), chat)
    assert not thinks(AdvisorConfig(end_of_thinking="[done]"), chat)
    with pytest.raises(UsageError, match="has no chat template"):
        chat_format_of(AdvisorConfig(chat_template=True), TINY)
    named = tmp_path / "named"
    named.mkdir()
    (named / "tokenizer_config.json").write_text(
        '{"chat_template": [{"name": "tools", "template": "a"}, {"name": "default", "template": "b"}]}'
    )
    assert template_of(named) == "b"


@pytest.mark.parametrize(
    ("settings", "longest"),
    [({}, 1024), ({"thinking": False}, 512), ({"chat_template": False}, None), ({"max_tokens": 99}, 99)],
)
def test_a_chat_model_gets_room_for_its_answer_and_a_thinking_one_for_its_thoughts(
    settings: dict[str, Any], longest: int | None, tmp_path: Path
) -> None:
    model = str(save_chat_model(tmp_path / "model", SWITCHED))
    config = Config.model_validate({"task": "circle_packing", "advisor": {"model": model, **settings}})
    assert with_advisor(config, load_task("circle_packing")).advisor.max_tokens == longest


@pytest.mark.parametrize(
    "settings",
    [
        {"max_tokens": 2048},
        {"max_tokens_by_call": {"select": 3000}},
        {"max_tokens": 512, "engine_arguments": ["--max-model-len=512"]},
        {"max_tokens": 512, "engine_arguments": ["--max-model-len", "400"]},
    ],
)
def test_an_answer_as_long_as_the_context_is_refused_before_anything_is_written(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    model = str(save_chat_model(tmp_path / "model", SWITCHED))
    config = Config.model_validate({"task": "circle_packing", "advisor": {"model": model, **settings}})
    with pytest.raises(UsageError, match=r"there is no room for a question; lower advisor\.max_tokens"):
        with_advisor(config, load_task("circle_packing"))


def test_a_model_configuration_that_was_cut_off_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position')
    with pytest.raises(UsageError, match=r"config\.json is not JSON"):
        with_advisor(Config.model_validate({"advisor": {"model": str(tmp_path)}}), load_task("circle_packing"))


async def test_a_template_that_cannot_be_applied_is_a_fault_that_says_so() -> None:
    refusing = SWITCHED + "{{ raise_exception('no such turn') }}"
    async with engine_of(refusing, ChatFormat()) as engine:
        with pytest.raises(InfrastructureFault, match=r"engine_refused.*no such turn"):
            await engine.encode("What?")
