"""Which GPU the learner has and which the engine, where versions go from one to the other over NCCL.

Two ends on one card make no group: NCCL refuses it. What there is, is found out; that it does not do is said before a
run begins.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from pace_async.advise.engines.vllm_found import Missing, find_vllm, visible_gpus
from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.runtime.external import is_external, urls_of

_HERE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Cards:
    """As CUDA_VISIBLE_DEVICES names them. `engine` None: it runs already, on whichever."""

    learner: str
    engine: str | None


def cards_of(config: Config) -> Cards | None:
    """None where versions go another way, and each child sees what it sees. Raises UsageError."""
    if config.advisor.transport != "nccl":
        return None
    asked, build, gpus = "advisor.transport nccl", find_vllm(), visible_gpus()
    if isinstance(build, Missing):
        raise UsageError(f"{asked}: {build.found}; mend it with `{build.remedy}`.")
    if build.device != "cuda":
        raise UsageError(
            f"{asked} needs vLLM on a GPU, and {build.package} {build.version} runs on the {build.device}."
        )
    external = is_external(config.advisor.engine)
    if external:
        _refuse_unless_one_here(config.advisor.engine)
    needed = 1 if external else 2
    if len(gpus) < needed:
        wanted = "a GPU for the learner" if external else "two GPUs, one for the learner and one for vLLM"
        raise UsageError(f"{asked} needs {wanted}; {len(gpus)} can be seen.")
    return Cards(gpus[0], None if external else gpus[1])


def _refuse_unless_one_here(engine: str) -> None:
    url, *others = urls_of(engine)
    if others:
        raise UsageError(f"advisor.transport nccl goes to one server, and --engine names {1 + len(others)}.")
    if urlsplit(url).hostname not in _HERE:
        raise UsageError(f"advisor.transport nccl stays on this machine, and --engine {url} is on another.")
