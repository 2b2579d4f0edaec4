"""A model that also sees, from its folder to the second version: a tiny Qwen3.5 of random weights in bfloat16. Its text
part is served, trained and pushed, with its chat template, thinking, and answers of 4,096 tokens."""

import os
from pathlib import Path

import pytest
import torch

from pace_async.advise.chat import ChatFormat, TextFormat
from pace_async.advise.client import HttpEngine, special_token_ids
from pace_async.advise.engines.vllm_managed import managed_vllm
from pace_async.advise.text_part import text_part
from pace_async.learn.client import ProcessLearner
from pace_async.learn.settings import TrainerConfig
from pace_async.publish.file import FilePublisher
from pace_async.weights import checkpoint_digests
from tests.support.chat_models import SWITCHED, VOCABULARY, never_ends, qwen3_5_whole, save_chat_model, tokenizer_of
from tests.support.engine_models import plain_logprobs
from tests.support.learn_toys import written_groups
from tests.support.vllm_servers import installed_vllm, small_server

pytestmark = [pytest.mark.needs_vllm, pytest.mark.nightly, pytest.mark.timeout(900)]

KERNELS = {"head_dim": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "max_position_embeddings": 8192}
"""Sizes for which the CPU build has kernels."""
SHORT, LONG = 256, 4096
MOST_K3 = 2e-3
"""Between vLLM in bfloat16 and float32, in the mean over a quarter of an answer."""
STAND_IN = Path(__file__).parents[2] / "doubles" / "torchvision_stand_in"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = never_ends(qwen3_5_whole(0, ("linear_attention", "full_attention"), **KERNELS)).to(torch.bfloat16)
    return save_chat_model(tmp_path_factory.mktemp("whole") / "model", SWITCHED, model=model)


async def test_a_model_that_sees_thinks_for_4096_tokens_learns_and_serves_its_next_version(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(STAND_IN), os.environ.get("PYTHONPATH", ""))))
    model, build = text_part(whole, tmp_path / "run" / "advisor"), installed_vllm()
    [group] = written_groups(made_folder(tmp_path / "groups"), 1, vocab=VOCABULARY)
    question = "Which idea is worth trying next? " * 30
    settings = small_server(build, longest_call=6144)
    text = TextFormat(special_token_ids(model), ChatFormat({"enable_thinking": True}))
    async with (
        # begun first: it starts beside the server
        ProcessLearner(model, tmp_path / "learner", TrainerConfig(learning_rate=1e-3, precision="bf16")) as learner,
        managed_vllm(build, model, settings, log=tmp_path / "engine.log") as server,
        HttpEngine(server.url, text=text, timeout_s=300.0) as engine,
        FilePublisher(server.url) as publisher,
    ):
        prompt = await engine.encode(question)
        assert (
            tokenizer_of(SWITCHED).decode(prompt) == f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        )
        trained = (await learner.train(group)).weights
        assert trained is not None
        assert checkpoint_digests(trained) != checkpoint_digests(model)
        for version, weights, length in ((0, model, SHORT), (1, trained, LONG)):
            receipt = await publisher.publish(version, weights)
            assert receipt.digests == checkpoint_digests(weights)
            answer = await engine.generate(prompt, max_tokens=length, temperature=1.0, seed=version)
            assert [(span.version, span.start, span.end) for span in answer.spans] == [(version, 0, length)]
            moved = torch.tensor(answer.logprobs) - torch.tensor(plain_logprobs(weights, prompt, answer.token_ids, 1.0))
            k3 = (torch.exp(-moved) - 1 + moved).reshape(4, -1).mean(1)
            assert k3.max() < MOST_K3


def made_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder
