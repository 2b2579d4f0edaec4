"""The health of models in the pool, where calls of several leases overlap."""

import anyio

from pace_async.config import FaultsConfig
from pace_async.providers.base import IMPLEMENTER, Share
from pace_async.providers.failures import CallFailed
from pace_async.providers.pool import CallLimits, ModelPool, ModelQuestion
from tests.doubles.implementers import PlainLedger


class SlowLedger(PlainLedger):
    """Commits the first failure only after `answered` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.failing, self.answered = anyio.Event(), anyio.Event()

    async def fault(self, kind: str, detail: str, lease: int | None) -> None:
        self.failing.set()
        await self.answered.wait()
        await super().fault(kind, detail, lease)


async def test_patience_counts_again_where_another_call_was_answered_while_a_failure_was_recorded() -> None:
    """On a machine that has been up for longer than the patience, the run used to end at once."""
    ledger, answers = SlowLedger(), list[str]()
    limits = CallLimits(timeout_s=5.0, deadline_s=5.0, faults=FaultsConfig(backoff_s=0.01, patience_s=5.0))
    pool = ModelPool((Share("local", 1.0),), ledger, 0, limits, IMPLEMENTER)
    assert anyio.current_time() > limits.faults.patience_s

    async def refused_once(_model: str, _seconds: float) -> str:
        if not ledger.failing.is_set():
            raise CallFailed("bad_key", "refused")
        return "first"

    async def answered(_model: str, _seconds: float) -> str:
        return "second"

    async def ask_second() -> None:
        await ledger.failing.wait()
        answers.append(await pool.answer(ModelQuestion(2, answered)))
        ledger.answered.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_second)
            answers.append(await pool.answer(ModelQuestion(1, refused_once)))
    assert answers == ["second", "first"]
    assert [kind for kind, _ in ledger.faults] == ["bad_key", "all_providers_down", "provider_back"]
