"""A ledger with so much money, which keeps the calls."""

from pace_async.errors import BudgetReached
from pace_async.events import ImplementerCalled


class Ledger:
    """A `CallLedger` with so much money."""

    def __init__(self, usd: float = 1e9) -> None:
        self.usd = usd
        self.calls: list[ImplementerCalled] = []

    async def reserve(self, lease: int, model: str, usd: float) -> int:
        if usd > self.usd:
            raise BudgetReached(usd, self.usd)
        return len(self.calls) + 1

    async def settle(self, call: ImplementerCalled) -> None:
        self.calls.append(call)

    async def fault(self, kind: str, detail: str, lease: int | None) -> None:
        raise AssertionError(kind)
