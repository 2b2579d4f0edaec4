"""One engine: what asks it and what pushes to it, together, so that no answer gets ahead of the proof of a push.

Invariant: no token is given away that was sampled by weights whose push is not proven: by a receipt of every tensor,
and by a probe after it, k3 of an answer of the server's own against the learner. What was sampled between the push and
its probe waits for it, and is void where it fails; from there until a push has been proven nothing new is asked.
"""

import math
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from pace_async.advise.base import Completion
from pace_async.advise.client import HttpEngine
from pace_async.errors import InfrastructureFault
from pace_async.learn.base import Scorer
from pace_async.publish import probe
from pace_async.publish.adapter import AdapterPublisher, Adapters
from pace_async.publish.base import PushFailed, Receipt
from pace_async.publish.file import FilePublisher
from pace_async.publish.nccl import NcclPublisher, Sender
from pace_async.runtime.labels import PushLabels
from pace_async.weights import BASE

Tell = Callable[[InfrastructureFault], Awaitable[None]]
"""Records that something outside failed."""


async def tell_nobody(fault: InfrastructureFault) -> None:
    """For an engine whose faults nobody records."""


@dataclass(frozen=True, slots=True)
class Probing:
    """How a push is probed, on how many tokens at most. `scorer` None: not at all. `limit` is the k3 above which it has
    failed."""

    scorer: Scorer | None = None
    limit: float = 5e-3
    temperature: float = 1.0
    tell: Tell = tell_nobody
    tokens: int = probe.TOKENS


class Replica:
    """An `Engine` and a `Publisher`. `url` has no slash at its end; `adapters`: each version is a LoRA adapter, and the
    engine's base is known to be version 0; `sender`: who sends a version over NCCL, None: all go by file. An async
    context manager."""

    def __init__(
        self,
        url: str,
        *,
        probing: Probing,
        special_ids: Collection[int] = (),
        timeout_s: float = 120.0,
        phase_s: float = 60.0,
        numbered: bool = False,
        adapters: bool = False,
        sender: Sender | None = None,
    ) -> None:
        self.url = url
        self.labels = PushLabels(numbered=numbered or adapters)
        held = Adapters() if adapters else None
        self.client = HttpEngine(url, special_ids=special_ids, timeout_s=timeout_s, labels=self.labels, adapters=held)
        self._publisher: FilePublisher | AdapterPublisher
        if held is not None:
            self._publisher = AdapterPublisher(url, held, phase_s=phase_s, label=self.labels.begin)
        elif sender is not None:
            self._publisher = NcclPublisher(url, sender, phase_s=phase_s, label=self.labels.begin)
        else:
            self._publisher = FilePublisher(url, phase_s=phase_s, label=self.labels.begin)
        self._probing = probing
        self._timeout_s = timeout_s
        self._alarms = 0
        self._one = anyio.Lock()
        self._sound = anyio.Event()
        self._sound.set()

    async def encode(self, text: str) -> tuple[int, ...]:
        return await self.client.encode(text)

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        return await self.client.decode(token_ids)

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        with anyio.move_on_after(self._timeout_s) as waited:
            await self._sound.wait()
        if waited.cancelled_caught:
            raise InfrastructureFault("engine_unproven", f"{self.url}: no push was proven in {self._timeout_s:g} s")
        return await self.client.generate(prompt_ids, max_tokens=max_tokens, temperature=temperature, seed=seed)

    async def publish(self, version: int, weights: Path) -> Receipt:
        """Push and probe. Raises PushFailed, of kind probe_failed too: the engine then serves, under a name that nobody
        believes."""
        async with self._one:
            try:
                receipt = await self._publisher.publish(version, weights)
                k3 = await self._probe(version)
            except BaseException:
                self.labels.settle(False)
                raise
            self.labels.settle(True)
            if isinstance(self._publisher, AdapterPublisher):
                await self._publisher.turn_to(self._name(version))
            self._sound.set()
            return replace(receipt, k3=k3)

    def believe(self) -> None:
        """The engine was started anew with weights that are known: it may be asked again."""
        self._sound.set()

    async def __aenter__(self) -> "Replica":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.aclose()
        await self._publisher.aclose()

    async def _probe(self, version: int) -> float | None:
        """k3; None if there is nobody to compare with. Raises PushFailed."""
        if self._probing.scorer is None:
            return None
        try:
            k3 = await self._k3(self._probing.scorer, version)
        except InfrastructureFault as fault:
            self._distrust()
            raise PushFailed(fault.kind, f"probe: {fault.detail}", began=True) from fault
        if k3 is None or k3 <= self._probing.limit:
            return k3
        self._distrust()
        detail = f"version {version}: k3 {k3:.3g} on a fixed prompt, above {self._probing.limit:g}: other weights"
        raise PushFailed("probe_failed", detail, began=True)

    async def _k3(self, scorer: Scorer, version: int) -> float | None:
        name = self._name(version)
        prompt = await self.client.encode(probe.TEXT)
        sampled = await self.client.sample(
            prompt,
            max_tokens=self._probing.tokens,
            temperature=self._probing.temperature,
            seed=probe.SEED + self._alarms,  # what was a false alarm is not one for ever
            adapter=name if isinstance(self._publisher, AdapterPublisher) else None,
            past_end=True,
        )
        strange = {span.version for span in sampled.spans or ()} - {name}
        if strange:
            raise InfrastructureFault("probe_failed", f"answered by weights {min(strange)!r}")
        try:
            own = await scorer.logprobs(version, prompt, sampled.token_ids)
        except InfrastructureFault as fault:
            await self._probing.tell(fault)  # the receipt stands without it
            return None
        if own is None:
            return None
        k3 = probe.k3_of(sampled.logprobs, own)
        return math.inf if math.isnan(k3) else k3

    def _name(self, version: int) -> str:
        """What the push that was begun last calls its weights."""
        if isinstance(self._publisher, AdapterPublisher) and version == 0:
            return BASE
        return self.labels.last or ""

    def _distrust(self) -> None:
        self._alarms += 1
        if self._sound.is_set():
            self._sound = anyio.Event()
