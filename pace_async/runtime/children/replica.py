"""One engine with its client and its publisher. Answers wait for the proof of their push.

Invariant: no token is returned that was sampled by weights whose push is unproven. The proof is a receipt of every
tensor, then a probe: k3 of one of the server's own answers against the learner. Tokens sampled between push and probe
wait for the probe, and are void if it fails. After a failure no new request is sent until a push is proven.

Each push gives its weights their own label, `VERSION.RUN.PUSH`. A server that restarted with other weights, or that
another run pushed to, therefore has another label. Two pushes of one version differ too.
Invariant: a label gives a version only once its push is proven. An earlier caller waits, and gets `Voided` if the push
failed.
"""

import math
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import anyio

from pace_async.advise.base import Completion, Voided
from pace_async.advise.chat import PLAIN_TEXT, TextFormat
from pace_async.advise.client import LONGEST_LABEL, HttpEngine
from pace_async.advise.engines.wire import SamplingParams
from pace_async.errors import InfrastructureFault
from pace_async.learn.base import LogprobScorer
from pace_async.publish import probe
from pace_async.publish.adapter import AdapterPublisher, LoadedAdapters
from pace_async.publish.base import (
    EnginePublisher,
    GroupSender,
    Offerer,
    PublisherParts,
    PushFailed,
    Receipt,
    Sharer,
)
from pace_async.registry.transports import TRANSPORTS
from pace_async.weights import BASE


@dataclass(slots=True)
class _Push:
    version: int
    proven: bool | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)


class PushLabels:
    """`advise.client.Labels` of one engine. `numbered` is for an engine that the run starts with known weights: a bare
    number is then a version too."""

    def __init__(self, *, numbered: bool = False) -> None:
        self._numbered = numbered
        self._run = secrets.token_hex(4)
        self._pushes: dict[str, _Push] = {}

    def begin(self, version: int) -> str:
        """Make the label of a push that begins."""
        label = f"{version}.{self._run}.{len(self._pushes) + 1}"
        self._pushes[label] = _Push(version)
        return label

    def settle(self, proven: bool) -> str | None:
        """Settle the last push as proven or failed. Returns its label if proven."""
        for label, push in reversed(self._pushes.items()):
            if push.proven is None:
                push.proven = proven
                push.settled.set()
            return label if push.proven else None
        return None

    @property
    def last(self) -> str | None:
        """The label of the last push."""
        return next(reversed(self._pushes), None)

    async def version(self, label: str) -> int:
        push = self._pushes.get(label)
        if push is None:
            return self._number(label)
        await push.settled.wait()
        if not push.proven:
            raise Voided(f"sampled by weights {label}, which a probe or a push left unproven")
        return push.version

    async def oldest(self, before: str, after: str) -> int:
        versions = [await self.version(before), await self.version(after)]
        names = list(self._pushes)
        first = names.index(before) if before in self._pushes else -1
        last = names.index(after) if after in self._pushes else -1
        return min([*versions, *[await self.version(name) for name in names[first + 1 : last]]])

    def _number(self, label: str) -> int:
        if not (self._numbered and label.isdecimal() and len(label) <= LONGEST_LABEL):
            raise InfrastructureFault("bad_spans", f"weights {label!r} are none that this run has pushed")
        return int(label)


Tell = Callable[[InfrastructureFault], Awaitable[None]]
"""Records a fault of a service."""


async def ignore_fault(fault: InfrastructureFault) -> None:
    """Default for an engine whose faults are not recorded."""


@dataclass(frozen=True, slots=True)
class Probing:
    """Settings of a push's probe: at most so many tokens, `scorer` None for no probe, `limit` the k3 above which the
    push has failed. `limit` None: measured at the engine's first push."""

    scorer: LogprobScorer | None = None
    limit: float | None = 5e-3
    temperature: float = 1.0
    tell: Tell = ignore_fault
    tokens: int = probe.TOKENS


@dataclass(frozen=True, slots=True)
class Delivery:
    """How versions reach an engine. `numbered`: the run starts it with known weights. `adapters`: each version is a
    LoRA adapter, and the engine's base is known to be version 0. `transport` carries whole weights, from `sender` or
    `sharer` where it takes them from the learner's memory, or by what `offerer` offers. Each phase of a push has
    `phase_s` seconds."""

    numbered: bool = False
    adapters: bool = False
    transport: str = "file"
    sender: GroupSender | None = None
    sharer: Sharer | None = None
    offerer: Offerer | None = None
    phase_s: float = 60.0


BY_FILE = Delivery()


class Replica:
    """An `Engine` and a `Publisher`. `url` has no slash at its end. An async context manager."""

    def __init__(
        self,
        url: str,
        *,
        probing: Probing,
        text: TextFormat = PLAIN_TEXT,
        timeout_s: float = 120.0,
        delivery: Delivery = BY_FILE,
    ) -> None:
        self.url = url
        self.labels = PushLabels(numbered=delivery.numbered or delivery.adapters)
        adapters = LoadedAdapters() if delivery.adapters else None
        self.client = HttpEngine(url, text=text, timeout_s=timeout_s, labels=self.labels, adapters=adapters)
        self._publisher: EnginePublisher
        if adapters is not None:
            self._publisher = AdapterPublisher(url, adapters, phase_s=delivery.phase_s, label=self.labels.begin)
        else:
            factory = TRANSPORTS[delivery.transport].load()
            self._publisher = factory(
                PublisherParts(
                    url, delivery.phase_s, self.labels.begin, delivery.sender, delivery.offerer, delivery.sharer
                )
            )
        self._probing = probing
        self._timeout_s = timeout_s
        self._alarms = 0
        self._limit = probing.limit
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
        """Push and probe. Raises PushFailed, of kind probe_failed too: the engine then serves under an unproven
        label."""
        async with self._one:
            try:
                receipt = await self._publisher.publish(version, weights)
                k3 = await self._probe(version)
            except BaseException:
                self.labels.settle(False)
                raise
            self.labels.settle(True)
            await self._publisher.turn_to(self._name(version))
            self._sound.set()
            return replace(receipt, k3=k3)

    def believe(self) -> None:
        """Accept requests again after the engine was restarted with known weights."""
        self._sound.set()

    async def __aenter__(self) -> "Replica":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.aclose()
        await self._publisher.aclose()

    async def _probe(self, version: int) -> float | None:
        """The probe's k3, None without a learner to compare with. A probe above the limit is repeated with another
        sample, because a push that fails may cost a server. Raises PushFailed."""
        if self._probing.scorer is None:
            return None
        if self._limit is None:
            return await self._measure(version)
        measurements: list[float] = []
        for at in range(probe.TRIES):
            k3 = await self._k3(version, probe.TEXT, at)
            if k3 is None or k3 <= self._limit:
                return k3
            measurements.append(k3)
        raise self._other_weights(version, measurements, self._limit)

    async def _measure(self, version: int) -> float | None:
        """Measure the limit on several samples, of weights whose receipt is valid. Returns the median of their k3, None
        if the learner cannot compare now: the next push then measures. Raises PushFailed."""
        measurements: list[float] = []
        for text in probe.TEXTS:
            k3 = await self._k3(version, text)
            if k3 is None:
                return None
            measurements.append(k3)
        limit = probe.limit_of(measurements)
        if limit is None:
            raise self._other_weights(version, measurements, probe.GROSS)
        self._limit = limit
        if limit > probe.LEAST:
            values = ", ".join(f"{k3:.3g}" for k3 in measurements)
            detail = f"k3 {values} between engine and learner at version {version}: pushes fail above {limit:.3g}"
            await self._probing.tell(InfrastructureFault("probe_limit", detail))
        return median(measurements)

    def _other_weights(self, version: int, measurements: Sequence[float], limit: float) -> PushFailed:
        self._distrust()
        values = " and ".join(f"{k3:.3g}" for k3 in measurements)
        where = "a fixed prompt" if len(measurements) <= probe.TRIES else "fixed prompts"
        detail = f"version {version}: k3 {values} on {where}, above {limit:g}: other weights"
        return PushFailed("probe_failed", detail, began=True)

    async def _k3(self, version: int, text: str, attempt: int = 0) -> float | None:
        """k3 on the answer to `text`. None if the learner cannot compare. Raises PushFailed."""
        assert self._probing.scorer is not None
        seed = probe.SEED + probe.TRIES * self._alarms + attempt  # another after an alarm, or a false one would repeat
        try:
            return await self._compared(self._probing.scorer, version, text, seed)
        except InfrastructureFault as fault:
            self._distrust()
            raise PushFailed(fault.kind, f"probe: {fault.detail}", began=True) from fault

    async def _compared(self, scorer: LogprobScorer, version: int, text: str, seed: int) -> float | None:
        name = self._name(version)
        prompt = await self.client.encode(text)
        sampled = await self.client.sample(
            prompt,
            SamplingParams(
                max_tokens=self._probing.tokens, temperature=self._probing.temperature, seed=seed, ignore_eos=True
            ),
            name if self._publisher.names_adapters else None,
        )
        strange = {span.version for span in sampled.spans or ()} - {name}
        if strange:
            raise InfrastructureFault("probe_failed", f"answered by weights {min(strange)!r}")
        try:
            own = await scorer.logprobs(version, prompt, sampled.token_ids)
        except InfrastructureFault as fault:
            await self._probing.tell(fault)  # the receipt is valid without it
            return None
        if own is None:
            return None
        k3 = probe.k3_of(sampled.logprobs, own)
        return math.inf if math.isnan(k3) else k3

    def _name(self, version: int) -> str:
        """The label of the weights of the last push."""
        if self._publisher.names_adapters and version == 0:
            return BASE
        return self.labels.last or ""

    def _distrust(self) -> None:
        self._alarms += 1
        if self._sound.is_set():
            self._sound = anyio.Event()
