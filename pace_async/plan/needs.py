"""What a run needs, part by part. Pure.

Parts that nobody has measured on a card are assumptions, and are marked as such.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from pace_async.config import Config
from pace_async.config.advisor import Call
from pace_async.plan.served import ServedModel
from pace_async.plan.step import StepBytes, StepShape
from pace_async.registry.engines import engine_of
from pace_async.registry.objectives import OBJECTIVES, trains
from pace_async.registry.transports import TRANSPORTS

GIB = 2.0**30
Owner = Literal["learner", "engine", "run"]

CUDA_GIB, FRAGMENTS = 1.0, 0.04
"""Assumed for the learner on a card: CUDA's context and libraries, and a share of its memory that is fragmented."""
GATHERED_LAYERS = 2
"""Assumed for sharded weights: layers that are whole at once in a pass, weights and gradient, beside what no layer
holds: the one that is computed, and the next."""
ENGINE_GIB = 4.0
"""Assumed for vLLM on a card: CUDA's context, graphs, activations."""
SHARED_GIB = 0.25
"""Assumed for a vLLM that the run starts: memory that its processes share, in /dev/shm."""
VERSIONS, CHECKPOINTS = 4, 3
"""On disk at once: those kept, and the one that is being written."""
CANDIDATE_BYTES, TOKEN_BYTES = 25_000, 6
"""Of a candidate's rows and events, and of each token of its calls, rounded up (docs/decisions/12-journal.md)."""
LEARNER_S, ENGINE_S = 2.5, 1.5
"""Seconds a GB in which a version is written and digested, and read and digested again. Measured on a CPU."""


@dataclass(frozen=True, slots=True)
class Part:
    """`size` is in bytes. `assumed`: a figure of experience, not counted."""

    owner: Owner
    what: str
    size: float
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class RunNeeds:
    """`device` is on each card of each part's owner, or in host memory if the owner computes on the processor. `shared`
    is in /dev/shm. `push_s` are seconds. `cache` are the bytes that vLLM gets for keys and values on each of its cards,
    and `cache_one` and `cache_all` those of one request and of all requests at their longest."""

    device: tuple[Part, ...]
    host: tuple[Part, ...]
    disk: tuple[Part, ...]
    shared: tuple[Part, ...]
    push_s: float
    cache: float
    cache_one: float
    cache_all: float


def shape_of(config: Config, folder: str, context: int | None) -> StepShape:
    """The largest pass of a run whose advisor's config.json is in `folder` and whose context is `context` tokens.
    Without rows if the run trains nothing. The longest call is what learner.max_length and the context allow, and
    advisor.max_prompt_tokens, or else prompts.tokens, with the longest answer."""
    learner, learns = config.learner, trains(config.learner.objective)
    tokens, answers = longest_call(config, context), longest_answer(config)
    penalty = OBJECTIVES[learner.objective].kl_penalty if learner.kl_penalty is None else learner.kl_penalty
    return StepShape(
        model=folder,
        rows=max(1, learner.micro_tokens // tokens) if learns else 0,
        tokens=tokens,
        answers=min(answers, tokens - 1),
        precision=learner.precision,
        gradient_checkpointing=learner.gradient_checkpointing,
        lora_rank=learner.lora_rank,
        reference=penalty > 0,
        head_chunk=learner.head_chunk,
    )


def longest_answer(config: Config) -> int:
    """Tokens of the longest answer."""
    return max(config.advisor.longest(purpose) for purpose in get_args(Call))


def longest_call(config: Config, context: int | None) -> int:
    """Tokens of the longest prompt and answer together that the limits allow."""
    limits = (config.learner.max_length, context, longest_prompt(config) + longest_answer(config))
    return max(2, min(limit for limit in limits if limit is not None))


def longest_prompt(config: Config) -> int:
    """Tokens of the longest question. Those of prompts.tokens are estimated from characters."""
    return config.advisor.max_prompt_tokens or config.prompts.tokens


def needs_of(
    config: Config, step: StepBytes, served: ServedModel, tokens: int, cards: Mapping[Owner, float | None]
) -> RunNeeds:
    """The needs of a run. `tokens` are those of the longest call. `cards` has the size of each owner's card in bytes,
    None if it computes on the processor."""
    starts = engine_of(config.advisor.engine)
    engine = _Engine(config, step, served, tokens, cards.get("engine"))
    version = float(served.weight if config.advisor.serves_given_type else 4) * step.trained  # bytes, on disk
    on_card = cards.get("learner") is not None
    return RunNeeds(
        device=(*_learner(config, step, version, on_card), *(engine.parts() if not starts.runs_already else ())),
        host=tuple(_host(config, step, version, on_card)),
        disk=(*_disk(config, step, served, version), *_rows(config, tokens)),
        shared=tuple(_shared(config)),
        push_s=version / 1e9 * (LEARNER_S + ENGINE_S),
        cache=0.0 if starts.runs_already else engine.cache,
        cache_one=0.0 if starts.runs_already else engine.one,
        cache_all=engine.one * config.search.threads,
    )


def _learner(config: Config, step: StepBytes, version: float, on_card: bool) -> Iterator[Part]:
    """On each of its cards, or of all its ranks together in host memory. `version`: bytes of a version."""
    if not step.trained:
        return
    ranks = config.learner.ranks
    sharded = ranks > 1 and config.learner.lora_rank is None
    copies = 1 if on_card else ranks
    share = copies / ranks if sharded else copies
    parts = (
        Part("learner", "weights", share * step.weights),
        Part("learner", "version 0, for the KL penalty", share * step.reference),
        Part("learner", "gradient, float32", share * step.gradient),
        Part("learner", "AdamW's moments, float32", share * step.moments),
        Part("learner", "the largest pass: activations, logits", float(copies * step.passes)),
    )
    allocations = [part for part in parts if part.size > 0]
    if sharded:
        gathered = 2 * 4.0 * (step.root + GATHERED_LAYERS * step.layer)
        allocations.append(Part("learner", "layers gathered for a pass", copies * gathered, assumed=True))
    if sharded and TRANSPORTS[config.advisor.transport].gpu_to_gpu:
        allocations.append(Part("learner", "a version gathered, beyond a pass", max(0.0, step.weights - step.passes)))
    if TRANSPORTS[config.advisor.transport].in_one_memory:
        allocations.append(Part("learner", "a version that the engine opens", version))
    yield from allocations
    if on_card:
        rest = CUDA_GIB * GIB + FRAGMENTS * sum(part.size for part in allocations)
        yield Part("learner", "CUDA, and what is fragmented", rest, assumed=True)


@dataclass(frozen=True, slots=True)
class _Engine:
    """See `needs_of`."""

    config: Config
    step: StepBytes
    served: ServedModel
    tokens: int
    card: float | None

    @property
    def one(self) -> float:
        """Bytes of one request's keys, values and state on each card, at its longest."""
        return self.served.cached(self.tokens, self._ranks)

    @property
    def cache(self) -> float:
        """Bytes for keys and values on each card: as given, or what is left of the engine's share."""
        cache_gib, all_requests = self.config.advisor.kv_cache_gib, self.one * self.config.search.threads
        if not engine_of(self.config.advisor.engine).serves_adapters:  # the embedded engine takes what it needs
            return all_requests
        if cache_gib is not None:
            return cache_gib * GIB
        if self.card is None:
            return GIB
        return max(0.0, self.config.advisor.gpu_memory * self.card - self._weights - self._adapters - ENGINE_GIB * GIB)

    @property
    def _weights(self) -> float:
        """On each card."""
        head = self.served.head if engine_of(self.config.advisor.engine).serves_adapters else 0
        return ((self.step.parameters - self._added) * self.served.weight + head) / self._ranks

    @property
    def _ranks(self) -> int:
        return self.config.advisor.ranks

    @property
    def _adapters(self) -> float:
        """One adapter for each version that may be asked at once, and the next one."""
        return float(self._added * self.served.weight * (self.config.bound + 2))

    @property
    def _added(self) -> int:
        """Weights of one adapter."""
        return 0 if self.config.learner.lora_rank is None else self.step.trained

    def parts(self) -> Iterator[Part]:
        """On each of its cards, or in host memory."""
        yield Part("engine", "weights", self._weights)
        if self._adapters:
            yield Part("engine", "adapters", self._adapters)
        if self.card is None:
            yield Part("engine", "the next version, while it is loaded", self._weights)
        yield Part("engine", "keys and values", self.cache)
        if self.card is not None:
            yield Part("engine", "CUDA, graphs, activations", ENGINE_GIB * GIB, assumed=True)


def _host(config: Config, step: StepBytes, version: float, on_card: bool) -> Iterator[Part]:
    """Host memory beside `device`. The learner has its copy from before a step, a checkpoint that it writes, or models
    that it loads, never two of them."""
    if not step.trained:
        return
    learner = config.learner
    ranks, sharded = learner.ranks, learner.ranks > 1 and learner.lora_rank is None
    parts: list[Part] = []
    if any(limit is not None for limit in (learner.max_move, learner.min_move_ess, learner.max_sure_move)):
        copies = 1 if sharded else ranks
        parts.append(Part("learner", "weights and moments from before a step", 12.0 * copies * step.trained))
    elif on_card or sharded:
        parts.append(Part("learner", "a checkpoint while it is written", 8.0 * step.trained))
    if ranks > 1:
        parts.append(Part("learner", "the model on every rank, while it is loaded", float(ranks * step.weights)))
    if parts:
        yield max(parts, key=lambda part: part.size)
    if on_card:
        engines = config.advisor.ranks
        label = "a version while it is read" if engines == 1 else "a version while each rank reads it"
        yield Part("engine", label, engines * version)


def _shared(config: Config) -> Iterator[Part]:
    engine = engine_of(config.advisor.engine)
    if engine.serves_adapters and not engine.runs_already:
        yield Part("engine", "memory that vLLM's processes share", SHARED_GIB * GIB, assumed=True)


def _disk(config: Config, step: StepBytes, served: ServedModel, version: float) -> Iterator[Part]:
    if served.has_more_than_text and not engine_of(config.advisor.engine).runs_already:
        text = step.parameters - (step.trained if config.learner.lora_rank is not None else 0)
        yield Part("engine", "the model's text part", float(text * served.weight))
    if not step.trained:
        return
    yield Part("learner", f"{VERSIONS} versions", VERSIONS * version)
    yield Part("learner", f"{CHECKPOINTS} checkpoints", CHECKPOINTS * 12.0 * step.trained)


def _rows(config: Config, tokens: int) -> Iterator[Part]:
    """The population in the run's folder, if the stop rules say how many candidates it gets. `tokens` are those of the
    longest call."""
    stop, calls = config.stop, 3 if config.advisor.calls == "three" else 1
    limits = (stop.candidates, None if stop.updates is None else stop.updates * config.learner.group_size)
    candidates = min((limit for limit in limits if limit is not None), default=None)
    if candidates is not None and config.population.url is None:
        each = CANDIDATE_BYTES + TOKEN_BYTES * calls * tokens
        yield Part("run", f"rows of {candidates:,} candidates", float(each * candidates), assumed=True)
