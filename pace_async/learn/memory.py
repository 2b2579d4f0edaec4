"""What answers a learner that ran out of memory: once, smaller passes if they can help, and then the settings that
would.

Pure. Imports no torch: an error is known by its class's name and its words.
"""

from pace_async.learn.settings import TrainerConfig

OUT_OF_MEMORY = "learner_out_of_memory"
"""Fault kind: a card, or the host, had no memory left for a step. Nothing was trained."""

_ON_THE_HOST = ("can't allocate memory", "not enough memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch or Python could not get memory. A step may be half done then, so the process has to end."""
    if any(kind.__name__ in ("OutOfMemoryError", "MemoryError") for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _ON_THE_HOST)


def said_briefly(error: BaseException) -> str:
    """The error's first line: the others are advice for authors of torch programs."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def remedy(settings: TrainerConfig) -> str:
    """What to do, as a clause: the one setting that saves the most memory of a step and is not chosen yet."""
    if not settings.gradient_checkpointing:
        return "`pace resume RUN --set learner.gradient_checkpointing=true` goes on with less memory"
    if settings.precision == "fp32":
        return "begin a new run with learner.precision=bf16"
    if settings.lora_rank is None:
        return "begin a new run with learner.lora_rank=16"
    return "begin a new run with shorter calls (advisor.max_tokens, advisor.max_prompt_tokens, learner.max_length)"


def halving_helps(settings: TrainerConfig, longest: int | None) -> bool:
    """Whether passes of half the size are smaller. A pass holds one call at least. `longest`: tokens of the group's
    longest call, None if that is not known."""
    return settings.micro_tokens > 1 and (longest is None or settings.micro_tokens > longest)


def further_remedies(settings: TrainerConfig) -> str:
    """What else leaves a pass of one call more room, as a sentence."""
    ways = ["a smaller learner.head_chunk"]
    if settings.lora_rank is None:
        ways.append("more learner.gpus, which divide the weights")
    ways.append("a card of its own, or a smaller advisor.gpu_memory or advisor.kv_cache_gib for the engine beside it")
    ways.append("a shorter learner.max_length")
    return f"These help too: {'; '.join(ways)}."
