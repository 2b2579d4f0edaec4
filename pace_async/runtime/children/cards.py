"""Gives the engine its cards and the learner one for each rank, and says which cards they own.

Each rank of the learner sees exactly one card, whatever Slurm or a container shows this process: TRL refuses two. The
engine sees the cards among which it is divided. Both use the first visible one, unless settings name others or versions
go over NCCL, for which each needs its own. For versions in memory that both see, they need the same one. An unusable
set is refused before a run begins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit

from pace_async.advise.engines.vllm_found import Missing, find_vllm
from pace_async.config import Config
from pace_async.errors import NotHere, UsageError
from pace_async.gpus import find_cards, visible_gpus
from pace_async.registry.advisors import advisor_of
from pace_async.registry.engines import engine_of
from pace_async.registry.objectives import trains
from pace_async.registry.trainers import TRAINERS
from pace_async.registry.transports import TRANSPORTS
from pace_async.runtime.children.external import urls_of

_NUMBERS = {2: "two"}
_HERE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards of the learner and of the engine, one for each rank, as CUDA_VISIBLE_DEVICES names them. Empty: that
    child does not run, or runs already, or there is no card."""

    learner: tuple[str, ...]
    engine: tuple[str, ...]


def cards_of(config: Config) -> Cards:
    """The cards of this machine for the learner and for the engine that the run starts. Raises UsageError."""
    if not TRANSPORTS[config.advisor.transport].gpu_to_gpu:
        cards = assigned(config, visible_gpus())
        if TRANSPORTS[config.advisor.transport].in_one_memory and cards.learner and _torch_has_cuda():
            _refuse_unless_on_card(config, cards.learner[0])
        return cards
    setting, build = f"advisor.transport {config.advisor.transport}", find_vllm()
    if isinstance(build, Missing):
        raise NotHere(f"{setting}: {build.found}; fix it with `{build.remedy}`.")
    if build.device != "cuda":
        raise UsageError(
            f"{setting} needs vLLM on a GPU, and {build.package} {build.version} runs on the {build.device}."
        )
    if engine_of(config.advisor.engine).runs_already:
        _refuse_unless_here(setting, config.advisor.engine)
    return assigned(config, visible_gpus())


def assigned(config: Config, gpus: Sequence[str]) -> Cards:
    """As `cards_of`, for these visible cards. Pure, except for a UUID in the settings, which is looked up in the
    driver's files. Raises UsageError."""
    own, starts, setting = TRANSPORTS[config.advisor.transport].gpu_to_gpu, _starts_engine(config), config.advisor.gpus
    reserved = _cards_for("advisor.gpus", setting, gpus, ()) if starts and isinstance(setting, list) else ()
    free = [gpu for gpu in gpus if gpu not in reserved]
    learner: tuple[str, ...] = ()
    here = trains(config.learner.objective) and not TRAINERS[config.learner.trainer].elsewhere
    if here and config.learner.cpu_ranks == 1:
        ranks = config.learner.ranks
        shares = not own and (ranks == 1 or len(free) < ranks)
        learner = _cards_for("learner.gpus", config.learner.gpus, gpus, gpus if shares else free)
    engine = reserved
    if starts and not reserved:
        others = tuple(gpu for gpu in gpus if gpu not in learner)
        engine = others[: config.advisor.ranks] if own else _cards_for("advisor.gpus", setting, gpus, gpus)
    if own:
        _refuse_unless_apart(config, learner, engine, len(gpus))
    if TRANSPORTS[config.advisor.transport].in_one_memory and learner and engine and learner != engine:
        raise UsageError(
            f"advisor.transport {config.advisor.transport} needs learner and engine on one card, and the learner has "
            f"card {learner[0]} and the engine card {engine[0]}."
        )
    return Cards(learner, engine)


def _refuse_unless_apart(config: Config, learner: Sequence[str], engine: Sequence[str], visible_count: int) -> None:
    """Versions go from card to card: no card may be at both ends."""
    starts, ranks = _starts_engine(config), config.advisor.ranks
    if learner and not (starts and (len(engine) < ranks or set(engine) & set(learner))):
        return
    count = max(1, len(learner))
    owners = "the learner" if count == 1 else f"{count} ranks of the learner"
    served = "one" if ranks == 1 else ranks
    requirement = f"{_NUMBERS.get(count + ranks, count + ranks)} GPUs, one for {owners} and {served} for vLLM"
    if not starts:
        requirement = "a GPU for the learner"
    raise _not_seen(visible_count)(
        f"advisor.transport {config.advisor.transport} needs {requirement}; {visible_count} can be seen."
    )


def taken_cards(config: Config) -> Mapping[str, str]:
    """The cards that the learner and the engine own, by name, each with its owner in words. None if they compute on
    the processor. Raises UsageError as `cards_of` does."""
    cards, owners = cards_of(config), dict[str, str]()
    if not TRANSPORTS[config.advisor.transport].gpu_to_gpu and not _torch_has_cuda():
        return owners
    for card in cards.learner:
        owners[card] = "the learner"
    for card in cards.engine:
        owners[card] = "the learner and the engine" if card in owners else "the engine"
    return owners


def learner_cards(config: Config) -> tuple[str | None, ...]:
    """One card for each rank of the learner. None: the usual one, "": the processor. Raises UsageError as `cards_of`
    does."""
    if config.learner.cpu_ranks > 1:
        return ("",) * config.learner.cpu_ranks
    return cards_of(config).learner or (None,)


def _starts_engine(config: Config) -> bool:
    return advisor_of(config.advisor.model).served and not engine_of(config.advisor.engine).runs_already


def _cards_for(
    key: str, setting: int | list[int | str] | None, gpus: Sequence[str], usual: Sequence[str]
) -> tuple[str, ...]:
    """The cards that a setting names, or as many of the usual ones. Raises UsageError for one that cannot be seen."""
    if not isinstance(setting, list):
        count = setting or 1
        if setting is not None and len(usual) < count:
            request = "a card" if count == 1 else f"{count} cards"
            visible = "none" if not gpus else f"{len(gpus)}"
            raise _not_seen(len(gpus))(f"{key} asks for {request}, and {visible} can be seen.")
        return tuple(usual[:count])
    cards = tuple(_card_named(key, name, gpus) for name in setting)
    if len(set(cards)) < len(cards):
        raise UsageError(f"{key} names a card twice, and each rank needs one of its own.")
    return cards


def _card_named(key: str, name: int | str, gpus: Sequence[str]) -> str:
    if isinstance(name, int) and name < len(gpus):
        return gpus[name]
    if isinstance(name, str):
        for card in gpus:
            if card.startswith(name):
                return card
        if any(card.is_named(name) for card in find_cards()):
            return name
    raise _not_seen(len(gpus))(f"{key} names card {name}, and {len(gpus)} can be seen: `pace doctor` lists them.")


def _not_seen(visible_count: int) -> type[UsageError]:
    """The kind of a refusal for cards that cannot be seen. Where none can, the run is meant for another machine."""
    return UsageError if visible_count else NotHere


def _torch_has_cuda() -> bool:
    """Whether the installed torch is a build for CUDA. Does not import it."""
    try:
        return "+cpu" not in version("torch")
    except PackageNotFoundError:
        return False


def _refuse_unless_on_card(config: Config, card: str) -> None:
    """The learner computes on this card: a vLLM on the processor cannot open its memory."""
    build = find_vllm()
    if not isinstance(build, Missing) and build.device != "cuda":
        raise UsageError(
            f"advisor.transport {config.advisor.transport} needs learner and engine on one card, and the learner has "
            f"card {card}, but {build.package} {build.version} runs on the {build.device}."
        )


def _refuse_unless_here(setting: str, engine: str) -> None:
    for url in urls_of(engine):
        if urlsplit(url).hostname not in _HERE:
            raise UsageError(f"{setting} stays on this machine, and --engine {url} is on another.")
