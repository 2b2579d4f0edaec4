"""From the configuration to the implementer of a run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pace_async.config import Config
from pace_async.implement.base import Implementer, Ledger
from pace_async.implement.catalog import CatalogImplementer
from pace_async.implement.chat import open_chats
from pace_async.implement.makers import CatalogMaker, Maker, ModelMaker
from pace_async.implement.pool import Pool
from pace_async.implement.shares import CATALOG, models_of, parse_shares
from pace_async.task import Task


def lacks_catalogue(model: str, task: Task) -> bool:
    """Whether the catalogue would be asked, and the task has none. Raises UsageError."""
    return task.catalogue_path is None and any(share.model == CATALOG for share in parse_shares(model))


def refuse_unless_possible(model: str, task: Task) -> None:
    """Raise UsageError for a setting that cannot be read, or a catalogue that is not there. Calls nothing."""
    if any(share.model == CATALOG for share in parse_shares(model)):
        CatalogImplementer(task)


@asynccontextmanager
async def open_implementer(config: Config, task: Task, ledger: Ledger) -> AsyncGenerator[Implementer]:
    """Ready to implement; nothing of it is left afterwards."""
    shares = parse_shares(config.implementer.model)
    async with open_chats(models_of(config.implementer.model), config.implementer) as chats:
        makers: dict[str, Maker] = {
            chat.model: ModelMaker(chat, ledger, config.implementer.max_tokens) for chat in chats
        }
        if any(share.model == CATALOG for share in shares):
            makers[CATALOG] = CatalogMaker(CatalogImplementer(task), ledger)
        yield Pool(shares, makers, ledger, config.seed, config.implementer, config.faults)
