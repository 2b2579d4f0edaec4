"""Chooses the GPUs of the learner and the engine when versions go over NCCL, and says which cards they own.

NCCL needs two different cards. The cards are detected, and an unusable set is refused before a run begins. With any
other transport each child sees all cards and uses the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit

from pace_async.advise.engines.vllm_found import Missing, find_vllm
from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.gpus import visible_gpus
from pace_async.registry.advisors import advisor_of
from pace_async.registry.engines import engine_of
from pace_async.registry.objectives import trains
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


def taken_cards(config: Config) -> Mapping[str, str]:
    """The cards that the learner and the engine own, by name, each with its owner in words. None if they compute on
    the processor. Raises UsageError as `cards_of` does."""
    given = cards_of(config)
    if given is not None:
        return {given.learner: "the learner", **({given.engine: "the engine"} if given.engine is not None else {})}
    gpus = visible_gpus()
    learner = trains(config.learner.objective)
    engine = advisor_of(config.advisor.model).served and not engine_of(config.advisor.engine).runs_already
    if not gpus or not (learner or engine) or not _torch_has_cuda():
        return {}
    owners = (*(("the learner",) if learner else ()), *(("the engine",) if engine else ()))
    return {gpus[0]: " and ".join(owners)}


def _torch_has_cuda() -> bool:
    """Whether the installed torch is a build for CUDA. Does not import it."""
    try:
        return "+cpu" not in version("torch")
    except PackageNotFoundError:
        return False


def _refuse_unless_one_here(asked: str, engine: str) -> None:
    url, *others = urls_of(engine)
    if others:
        raise UsageError(f"{asked} goes to one server, and --engine names {1 + len(others)}.")
    if urlsplit(url).hostname not in _HERE:
        raise UsageError(f"{asked} stays on this machine, and --engine {url} is on another.")
