"""Learners of the paper's configurations, on models of the same architectures with few random weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.learn.lineage import Lineage, Outcome
from pace_async.learn.settings import TrainerConfig
from pace_async.objectives import Collapsed, advantages
from pace_async.replay.groupfile import write_group
from tests.support.chat_models import OPENED, SWITCHED, VOCABULARY, qwen3, qwen3_5, save_chat_model
from tests.support.learn_toys import random_group

CONFIGS = Path(__file__).parents[2] / "configs"
METHODS = {
    None: "pace",
    "thetaevolve": "grpo",
    "ttt_discover": "entropic",
    "ttt_discover_published": "entropic",
    "maxk": "maxk",
}
"""The files that may be laid over a configuration, and the objective that each sets."""
REWARDS = [0.1, 0.9, 0.3, 0.2, 0.7, 0.4, 0.0, 0.5]
GROUPS = 3


def r1_model(folder: Path) -> Path:
    """The architecture of DeepSeek-R1-0528-Qwen3-8B, in bfloat16."""
    model: Any = qwen3(0)
    return save_chat_model(folder, OPENED, model=model.to(torch.bfloat16))


def qwen_model(folder: Path) -> Path:
    """The architecture of Qwen3.5-4B's text model, in bfloat16."""
    return save_chat_model(folder, SWITCHED, model=qwen3_5(0).to(torch.bfloat16))


def laid(*names: str | None) -> Config:
    """These files, one over the other."""
    return resolve([CONFIGS / f"{name}.yaml" for name in names if name], environment={})


def started(model: Path, folder: Path, config: Config) -> Lineage:
    lineage = Lineage(model, folder, TrainerConfig.of(config))
    lineage.start([])
    return lineage


def next_version(lineage: Lineage, config: Config, folder: Path) -> Outcome:
    """Train a group whose advantages are the objective's own."""
    update, learner = lineage.version, config.learner
    given = advantages(
        learner.objective, REWARDS, k=learner.k, alpha=0.5, restandardise=False, collapsed=learner.collapsed
    )
    assert not isinstance(given, Collapsed)
    group = random_group(vocab=VOCABULARY, seed=update, update=update, number=update + 1, rollouts=len(REWARDS))
    rollouts = (replace(one, advantage=value) for one, value in zip(group.rollouts, given, strict=True))
    path = folder / f"{update + 1:06d}.safetensors"
    write_group(path, replace(group, objective=learner.objective, rollouts=tuple(rollouts)))
    outcome = lineage.train(path)
    assert (outcome.reason, outcome.version) == ("", update + 1)
    assert ("kl_reference" in outcome.metrics) is (lineage.settings.kl_penalty > 0)
    return outcome


class OwnWeights:
    """A scorer: the weights of a learner in this process."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage

    async def logprobs(
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...]:
        assert version == self.lineage.version
        return tuple(self.lineage.trainer.logprobs(list(prompt_ids), list(completion_ids)))
