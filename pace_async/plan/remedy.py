"""Settings to try when a run does not fit, the cheapest first. Pure."""

import math
from collections.abc import Iterator, Mapping

from pace_async.config import Config
from pace_async.plan.needs import GIB
from pace_async.registry.engines import engine_of

LORA_RANK = 16


def remedies(config: Config, cache_all: float, tokens: int) -> Iterator[dict[str, object]]:
    """Changes of settings, each with all the earlier ones. `cache_all` are the bytes of keys and values of all
    requests, `tokens` those of the longest call."""
    learner, changes = config.learner, dict[str, object]()
    adapters = engine_of(config.advisor.engine).serves_adapters
    steps: tuple[tuple[bool, str, object], ...] = (
        (adapters and config.advisor.kv_cache_gib is None, "advisor.kv_cache_gib", max(1, math.ceil(cache_all / GIB))),
        (not learner.gradient_checkpointing, "learner.gradient_checkpointing", True),
        (learner.precision == "fp32", "learner.precision", "bf16"),
        (learner.micro_tokens >= 2 * tokens, "learner.micro_tokens", tokens),
        (adapters and learner.lora_rank is None, "learner.lora_rank", LORA_RANK),
    )
    for applies, key, value in steps:
        if applies:
            changes[key] = value
            yield dict(changes)


def in_words(changes: Mapping[str, object]) -> str:
    """The changes as `--set` takes them."""
    written = [f"{key}={str(value).lower()}" for key, value in changes.items()]
    return written[0] if len(written) == 1 else f"{', '.join(written[:-1])} and {written[-1]}"
