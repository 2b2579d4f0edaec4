"""Can it learn at all? One of eight mechanisms is rewarded; the learner must find which, from rewards alone."""

import math
import random
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from pace_async.learn.client import ProcessLearner
from pace_async.learn.lineage import Lineage
from pace_async.learn.settings import Settings
from pace_async.replay.groupfile import Group, TrainedCall, TrainedRollout, write_group
from tests.learn_toys import write_llama

MECHANISMS = tuple(range(4, 12))
PROMPT = (2, 3, 2)
END = 1
GROUPS, GROUP_SIZE = 40, 8
SETTINGS = Settings(learning_rate=3e-3, checkpoint_every=1000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def novice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model taught to answer one mechanism and to stop, each mechanism as likely as the next."""
    folder = write_llama(tmp_path_factory.mktemp("bandit") / "model", vocab=16, width=32, layers=1)
    model = AutoModelForCausalLM.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.tensor([[*PROMPT, mechanism, END] for mechanism in MECHANISMS])
    for _ in range(80):
        logprobs = model(ids).logits[:, len(PROMPT) - 1 : -1].log_softmax(-1)
        loss = -logprobs.gather(-1, ids[:, len(PROMPT) :, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return folder


def probabilities(model: PreTrainedModel) -> dict[int, float]:
    """How likely each mechanism is as the first word."""
    with torch.no_grad():
        first = model(torch.tensor([PROMPT])).logits[0, -1].softmax(-1)
    return {mechanism: float(first[mechanism]) for mechanism in MECHANISMS}


def sample(model: PreTrainedModel, version: int, draws: torch.Generator) -> TrainedCall:
    ids, logprobs = list(PROMPT), list[float]()
    while len(logprobs) < 3 and ids[-1] != END:
        with torch.no_grad():
            scores = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        token = int(torch.multinomial(scores.exp(), 1, generator=draws))
        ids.append(token)
        logprobs.append(float(scores[token]))
    answer = tuple(ids[len(PROMPT) :])
    return TrainedCall(PROMPT, answer, tuple(logprobs), (version,) * len(answer))


class Search:
    """Samples groups from the versions on disk, `stale` versions behind the learner, and rewards one mechanism."""

    def __init__(self, folder: Path, novice: Path, *, seed: int, stale: int = 0, shuffle: bool = False) -> None:
        self.folder, self.seed, self.stale, self.shuffle = folder, seed, stale, shuffle
        self.rewarded = MECHANISMS[seed % len(MECHANISMS)]
        self.models: list[PreTrainedModel] = [AutoModelForCausalLM.from_pretrained(novice)]
        self.draws, self.order = torch.Generator().manual_seed(seed), random.Random(seed)
        folder.mkdir()

    def next_group(self, number: int) -> Path | None:
        """The file of one group, or None where all rewards are equal."""
        version = len(self.models) - 1
        sampled_by = max(0, version - self.stale)
        calls = [sample(self.models[sampled_by], sampled_by, self.draws) for _ in range(GROUP_SIZE)]
        rewards = [1.0 if self.rewarded in call.completion_ids else 0.0 for call in calls]
        if self.shuffle:
            self.order.shuffle(rewards)
        mean = sum(rewards) / GROUP_SIZE
        deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / GROUP_SIZE)
        if deviation < 1e-6:
            return None
        rollouts = tuple(
            TrainedRollout(number * GROUP_SIZE + place, (reward - mean) / deviation, reward, (call,))
            for place, (call, reward) in enumerate(zip(calls, rewards, strict=True))
        )
        path = self.folder / f"{number:06d}.npz"
        write_group(path, Group(number, version, "grpo", 0.0, self.stale, rollouts))
        return path

    def trained(self, weights: Path) -> None:
        self.models.append(AutoModelForCausalLM.from_pretrained(weights))

    @property
    def found(self) -> float:
        """The probability of the rewarded mechanism."""
        return probabilities(self.models[-1])[self.rewarded]


def learn(lineage: Lineage, search: Search) -> None:
    lineage.start([])
    for number in range(1, GROUPS + 1):
        path = search.next_group(number)
        if path is not None:
            search.trained(Path(str(lineage.train(path).weights)))


def test_the_novice_answers_each_mechanism_about_equally_often(novice: Path) -> None:
    for probability in probabilities(AutoModelForCausalLM.from_pretrained(novice)).values():
        assert probability == pytest.approx(1 / len(MECHANISMS), abs=0.03)


@pytest.mark.anyio
async def test_the_learner_process_finds_the_one_rewarded_mechanism_in_40_groups(novice: Path, tmp_path: Path) -> None:
    search = Search(tmp_path / "groups", novice, seed=1)
    async with ProcessLearner(novice, tmp_path / "out", SETTINGS) as learner:
        for number in range(1, GROUPS + 1):
            path = search.next_group(number)
            if path is not None:
                step = await learner.train(path)
                assert step.weights is not None
                search.trained(step.weights)
    assert search.found > 0.8


@pytest.mark.parametrize(("seed", "stale"), [(2, 0), (3, 2)])
def test_the_learner_finds_it_also_from_rollouts_that_older_versions_sampled(
    novice: Path, tmp_path: Path, seed: int, stale: int
) -> None:
    search = Search(tmp_path / "groups", novice, seed=seed, stale=stale)
    learn(Lineage(novice, tmp_path / "out", SETTINGS), search)
    assert search.found > 0.8


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_rewards_shuffled_within_each_group_it_finds_nothing(novice: Path, tmp_path: Path, seed: int) -> None:
    search = Search(tmp_path / "groups", novice, seed=seed, shuffle=True)
    learn(Lineage(novice, tmp_path / "out", SETTINGS), search)
    assert len(search.models) > 10, "the control must have been trained too"
    assert search.found < 0.4
