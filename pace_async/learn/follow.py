"""What a rank other than the first does while rank 0 works on a request.

It writes no file: rank 0 decides which checkpoint is loaded and writes every version.
Only imported in the learner's child process.
"""

from pathlib import Path
from typing import cast

from pace_async.learn.head import OwnHead
from pace_async.learn.lengths import TooLong
from pace_async.learn.ranks import Operation, Ranks
from pace_async.learn.rebuild import given_optimizer
from pace_async.learn.released import free_released
from pace_async.learn.replayed import continue_from, repeats
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.steady import RandomPasses
from pace_async.learn.store import load_optimizer, optimizer_state, whole_weights
from pace_async.learn.trainer import GroupTrainer, load_trainer
from pace_async.replay.groupfile import read_digested
from pace_async.row_positions import DependsOnNeighbours


class Follower:
    """This rank's part of the learner that rank 0 leads. `model` is the directory of version 0."""

    def __init__(self, model: Path, out: Path, settings: TrainerConfig, ranks: Ranks) -> None:
        self._model, self._out, self._settings, self._ranks = model, out, settings, ranks
        self._trainer: GroupTrainer | None = None

    def follow(self) -> None:
        """Take part in one operation after another, until rank 0 has completed its request."""
        while (call := self._ranks.told()) is not None:
            operation, *arguments = call
            self._take_part(cast("Operation", operation), *arguments)

    def _take_part(self, operation: Operation, *arguments: object) -> None:
        match operation, arguments:
            case "load", (str(source),):
                self._load(Path(source))
            case "step", (str(path), str(digest)):
                self._step(Path(path), digest)
            case "logprobs", (prompt, completion):
                self.trainer.logprobs(cast("list[int]", prompt), cast("list[int]", completion))
            case "weights", ():
                whole_weights(self.trainer)
            case "repeats", ():
                repeats(self.trainer)
            case "continue_from", (str(folder),):
                continue_from(self.trainer, Path(folder))
            case "optimizer", ():
                optimizer_state(self.trainer)
            case _:
                raise AssertionError(f"rank 0 asked for {operation} with {arguments}")

    @property
    def trainer(self) -> GroupTrainer:
        assert self._trainer is not None, "rank 0 loads first"
        return self._trainer

    def _load(self, source: Path) -> None:
        self._trainer = None
        free_released()  # of the old trainer, before the new one needs the room
        try:
            self._trainer = load_trainer(source, self._settings, self._out, self._model, ranks=self._ranks)
        except (DependsOnNeighbours, OwnHead, RandomPasses):
            return  # rank 0 reports it
        optimizer = given_optimizer(self._out)
        if source != self._model or optimizer.exists():
            load_optimizer(self._trainer, source if source != self._model else optimizer)

    def _step(self, path: Path, digest: str) -> None:
        group, own_digest = read_digested(path)
        if own_digest != digest:
            raise ValueError(f"{path} has another content on this rank: {own_digest}, not {digest}")
        try:
            self.trainer.step(group)
        except TooLong:
            return  # rank 0 reports it
