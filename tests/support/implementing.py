"""A pool of implementers against the local server, with a ledger that tests can read."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pace_async.config import Config
from pace_async.implement.assemble import open_implementer
from pace_async.implement.base import Experiment, ImplementedProgram, Implementer
from pace_async.search.state import Member
from pace_async.task import load_task
from research.rivals.local_implementer_server import USD_PER_MILLION_IN, USD_PER_MILLION_OUT
from tests.doubles.implementers import PlainLedger
from tests.support.simulated_runs import settings

CANARY = "sk-canary-0123456789abcdef"
TASK = load_task("circle_packing")
PARENT = Member(0, TASK.program, 0.96)


def configured(url: str, **more: object) -> Config:
    """Quick retries, the server's prices."""
    given: dict[str, object] = {
        "implementer__model": "openai/local",
        "implementer__api_base": url,
        "implementer__price_per_million_in": USD_PER_MILLION_IN,
        "implementer__price_per_million_out": USD_PER_MILLION_OUT,
        "faults__backoff_s": 0.01,
        "implementer__max_tokens": 1024,
    }
    return settings(**(given | more))


@asynccontextmanager
async def implementing(config: Config) -> AsyncGenerator[tuple[Implementer, PlainLedger]]:
    ledger = PlainLedger()
    async with open_implementer(config, TASK, ledger) as implementer:
        yield implementer, ledger


async def implement(implementer: Implementer, lease: int = 1, text: str = 'Set layout to "hex".') -> ImplementedProgram:
    return await implementer.implement(TASK, PARENT, Experiment(lease, "a better start", text))
