"""The view of a run that another process drives, folded from the facts of its journal.

Pure. Invariant: after each fact it is the view that the run's own screen has. Excepted is what no fact tells: whether a
person holds back new candidates, the machines of a cluster, and the stages of threads and learner, which are inferred.
"""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Self, get_type_hints

import msgspec

from pace_async.baseline import BaselineComparison
from pace_async.config import StopConfig
from pace_async.events import (
    Advised,
    Evaluated,
    Fact,
    GroupEnded,
    GroupShipped,
    ImplementerCalled,
    ImplementerReserved,
    LearnerStageChanged,
    LeaseAborted,
    LeaseOpened,
    RunHeader,
    SettingChanged,
    StageChanged,
    VersionPublished,
)
from pace_async.frozen_values import changed
from pace_async.observe.fold import fold
from pace_async.observe.in_force import in_force
from pace_async.observe.model import Note, RunView
from pace_async.observe.plain import SHOWN
from pace_async.population.columns import clean_json
from pace_async.population.journal.bodies import Recorded
from pace_async.population.journal.states import sealed, unseal


class Followed:
    """A run as of the last fact that was taken. `header` is that of the run, `best_known` the best score known for its
    task, `beside` what is recorded of such runs. `shown` are the last notes that a log shows, at most LAST_NOTES."""

    def __init__(
        self, header: RunHeader, best_known: float | None = None, beside: BaselineComparison | None = None
    ) -> None:
        self.view = RunView(header, stop_of(header), best_known=best_known, beside=beside)
        self.shown: tuple[Note, ...] = ()
        self._islands: dict[int, int] = {}

    def encoding(self) -> Callable[[], bytes]:
        """Takes hold of the view as it is now. What it returns encodes it, in any thread."""
        view, notes, islands = self.view, self.shown, dict(self._islands)

        def encode() -> bytes:
            parts = {name: value for name, value in view.__dict__.items() if name not in GIVEN}
            parts["unpriced"] = sorted(view.unpriced)
            return sealed(_ENCODER.encode((view.header, parts, notes, islands)))

        return encode

    @classmethod
    def of(cls, body: bytes, best_known: float | None = None, beside: BaselineComparison | None = None) -> Self:
        """The run as it was encoded. Raises ValueError for bytes that this version did not write."""
        header, parts, notes, islands = _DECODER.decode(unseal(body))
        followed = cls(header, best_known, beside)
        followed.view = changed(followed.view, **{name: getattr(parts, name) for name in parts.__struct_fields__})
        followed.shown, followed._islands = notes, islands
        return followed

    def plain(self) -> object:
        """All that is encoded, as a population keeps it: texts sound, and a number that is not finite is None."""
        return clean_json(msgspec.msgpack.decode(unseal(self.encoding()())))

    def take(self, fact: Recorded) -> Note | None:
        """Fold the next fact. Returns its note, None if it has none."""
        if isinstance(fact, RunHeader):
            self.view = changed(self.view, header=fact, stop=stop_of(fact))
            return None
        self.view = fold(self.view, fact)
        note = self.view.latest
        if note is not None and note.kind in SHOWN:
            self.shown = (*self.shown, note)[-LAST_NOTES:]
        if isinstance(fact, SettingChanged):
            header = in_force(self.view.header, {fact.key: json.loads(fact.after)})
            self.view = changed(self.view, header=header, stop=stop_of(header))
        if (stage := self._stage(fact)) is not None:
            self.view = fold(self.view, stage)
        return note

    def _stage(self, fact: Fact) -> StageChanged | LearnerStageChanged | None:
        """The stage that begins with the fact, where folding the fact does not show it."""
        match fact:
            case LeaseOpened():
                self._islands[fact.lease] = fact.island
            case Advised():
                return StageChanged(fact.island, fact.lease, "evaluate")
            case ImplementerReserved(role="implementer") if fact.lease in self._islands:
                return StageChanged(self._islands[fact.lease], fact.lease, "implement")
            case ImplementerCalled(role="implementer") if fact.lease in self._islands:
                return StageChanged(self._islands[fact.lease], fact.lease, "evaluate")
            case Evaluated() | LeaseAborted():
                self._islands.pop(fact.lease, None)
            case GroupShipped():
                return LearnerStageChanged("learn")
            case GroupEnded():
                return LearnerStageChanged("publish" if fact.version > self.view.learner.published else "waiting")
            case VersionPublished():
                return LearnerStageChanged("waiting")
            case _:
                pass
        return None


LAST_NOTES = 10
GIVEN = {"header", "stop", "best_known", "beside", "nodes"}
"""Fields of a view that are given to a follower, and what no fact tells."""
_HINTS = get_type_hints(RunView)
_PARTS: Any = msgspec.defstruct(
    "Parts", [(field.name, _HINTS[field.name]) for field in fields(RunView) if field.name not in GIVEN]
)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: Any = msgspec.msgpack.Decoder(tuple[RunHeader, _PARTS, tuple[Note, ...], dict[int, int]])


def cut_off(view: RunView) -> RunView:
    """The view of a run whose process has died: it ended with its last fact."""
    return replace(view, state="cut_off", reason="", ended_at=view.last_at)


def stop_of(header: RunHeader) -> StopConfig:
    """The stop rules of a run as it began."""
    return StopConfig.model_validate(header.config.get("stop") or {})
