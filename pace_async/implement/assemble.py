"""Builds the implementer of a run from its configuration."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from pace_async.config import Config
from pace_async.implement.base import BuiltInFactory, CallLedger, Implementer
from pace_async.implement.chat import open_chats
from pace_async.implement.model_maker import ModelMaker
from pace_async.implement.pool import BuiltInMaker, ImplementerPool, Maker
from pace_async.implement.shares import models_of, parse_shares
from pace_async.registry.implementers import ImplementerKind, implementer_of
from pace_async.task import Task


def lacks_catalogue(model: str, task: Task) -> bool:
    """Whether the setting needs a catalogue and the task has none. Raises UsageError."""
    return task.catalogue_path is None and any(kind.needs_catalogue for kind in _built_in(model))


def refuse_unless_possible(model: str, task: Task) -> None:
    """Raises UsageError for an invalid setting, or a task that lacks what an implementer needs. Calls no model."""
    for kind in _built_in(model):
        _made(kind, task)


@asynccontextmanager
async def open_implementer(config: Config, task: Task, ledger: CallLedger) -> AsyncGenerator[Implementer]:
    """The implementer, ready for use. It is closed when the context ends."""
    shares = parse_shares(config.implementer.model)
    async with open_chats(models_of(config.implementer.model), config.implementer) as chats:
        makers: dict[str, Maker] = {
            chat.model: ModelMaker(chat, ledger, config.implementer.max_tokens) for chat in chats
        }
        for kind in _built_in(config.implementer.model):
            makers[kind.name] = BuiltInMaker(kind.name, _made(kind, task), ledger)
        yield ImplementerPool(shares, makers, ledger, config.seed, config.implementer, config.faults)


def _built_in(model: str) -> list[ImplementerKind]:
    kinds = [implementer_of(share.model) for share in parse_shares(model)]
    return [kind for kind in kinds if not kind.asks_a_model]


def _made(kind: ImplementerKind, task: Task) -> Implementer:
    return cast("BuiltInFactory", kind.load())(task)
