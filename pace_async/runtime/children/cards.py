"""Chooses the GPUs of the learner and the engine when versions go over NCCL.

NCCL needs two different cards. The cards are detected, and an unusable set is refused before a run begins.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from pace_async.advise.engines.vllm_found import Missing, find_vllm, visible_gpus
from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.registry.engines import engine_of
from pace_async.registry.transports import TRANSPORTS
from pace_async.runtime.children.external import urls_of

_HERE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards as CUDA_VISIBLE_DEVICES names them. `engine` None: the engine already runs."""

    learner: str
    engine: str | None


def cards_of(config: Config) -> Cards | None:
    """The two cards, None for a transport that is not GPU to GPU. Each child then keeps its visible cards. Raises
    UsageError."""
    if not TRANSPORTS[config.advisor.transport].gpu_to_gpu:
        return None
    asked, build, gpus = f"advisor.transport {config.advisor.transport}", find_vllm(), visible_gpus()
    if isinstance(build, Missing):
        raise UsageError(f"{asked}: {build.found}; mend it with `{build.remedy}`.")
    if build.device != "cuda":
        raise UsageError(
            f"{asked} needs vLLM on a GPU, and {build.package} {build.version} runs on the {build.device}."
        )
    external = engine_of(config.advisor.engine).runs_already
    if external:
        _refuse_unless_one_here(asked, config.advisor.engine)
    needed = 1 if external else 2
    if len(gpus) < needed:
        wanted = "a GPU for the learner" if external else "two GPUs, one for the learner and one for vLLM"
        raise UsageError(f"{asked} needs {wanted}; {len(gpus)} can be seen.")
    return Cards(gpus[0], None if external else gpus[1])


def _refuse_unless_one_here(asked: str, engine: str) -> None:
    url, *others = urls_of(engine)
    if others:
        raise UsageError(f"{asked} goes to one server, and --engine names {1 + len(others)}.")
    if urlsplit(url).hostname not in _HERE:
        raise UsageError(f"{asked} stays on this machine, and --engine {url} is on another.")
