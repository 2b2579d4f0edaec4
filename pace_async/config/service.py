"""What a trainer elsewhere chooses, and which settings it cannot keep. Nothing is ignored: each is refused by name."""

from collections.abc import Iterator, Mapping

from pace_async.config.advisor import AdvisorConfig
from pace_async.config.learner import LearnerConfig
from pace_async.config.section import Section
from pace_async.config.tinker import TinkerConfig
from pace_async.registry.advisors import advisor_of
from pace_async.registry.objectives import OBJECTIVES, trains
from pace_async.registry.trainers import TRAINERS

RANK = 32
_OF_THIS_MACHINE = {
    "learner": (
        "lora_alpha",
        "micro_tokens",
        "packing",
        "gradient_checkpointing",
        "precision",
        "head_chunk",
        "gpus",
        "cpu_ranks",
        "max_length",
        "checkpoint_every",
    ),
    "advisor": (
        "transport",
        "fetch_from",
        "push_timeout_s",
        "engine_start_s",
        "threads",
        "kv_cache_gib",
        "gpus",
        "gpu_memory",
        "probe_limit",
        "engine_arguments",
        "float32_head",
    ),
}
"""Settings of processes, cards and weights here, of which a service has none."""
_LIMITS = ("max_move", "min_move_ess", "max_sure_move")


def chosen_by_trainer(trainer: str) -> Mapping[tuple[str, str], object]:
    """What a trainer sets where it is left to the run, by room and name."""
    kind = TRAINERS.get(trainer)
    if kind is None or not kind.elsewhere:
        return {}
    limits = {("learner", name): None for name in _LIMITS}
    return {("advisor", "engine"): kind.engine, ("learner", "lora_rank"): RANK, **limits}


def refuse_unless_at_service(learner: LearnerConfig, advisor: AdvisorConfig, service: TinkerConfig) -> None:
    """Raises ValueError, whose message is a clause, for what the trainer cannot do."""
    kind = TRAINERS[learner.trainer]
    if not kind.elsewhere:
        stated = sorted(service.model_fields_set & set(_changed(service)))
        if stated:
            raise ValueError(f"tinker.{stated[0]} needs learner.trainer tinker, and it is {kind.name}")
        if advisor.engine in {other.engine for other in TRAINERS.values() if other.engine}:
            raise ValueError(f"advisor.engine {advisor.engine} needs learner.trainer {advisor.engine}")
        return
    trainer = f"learner.trainer {kind.name}"
    if not trains(learner.objective):
        raise ValueError(f"{trainer} trains, and learner.objective {learner.objective} trains nothing: leave one out")
    if advisor.engine != kind.engine:
        raise ValueError(f"{trainer} serves its own versions: leave advisor.engine {advisor.engine} out")
    advisor_kind = advisor_of(advisor.model)
    if advisor_kind.packaged or advisor_kind.chosen_for_task:
        raise ValueError(f"{trainer} trains a model of the service: name the folder of its tokenizer by --advisor")
    if advisor.temperature != 1.0:
        raise ValueError(
            f"{trainer} has logprobs at temperature 1 only, and advisor.temperature is {advisor.temperature}"
        )
    if learner.lora_rank is None:
        raise ValueError(f"{trainer} trains LoRA adapters only: give learner.lora_rank, or leave it out")
    for name in _LIMITS:
        if getattr(learner, name) is not None:
            raise ValueError(f"{trainer} cannot halve or undo a step: leave learner.{name} out, or set it to null")
    penalty = OBJECTIVES[learner.objective].kl_penalty if learner.kl_penalty is None else learner.kl_penalty
    if penalty > 0:
        raise ValueError(f"{trainer} has no KL penalty: set learner.kl_penalty to 0")
    for room, section in (("learner", learner), ("advisor", advisor)):
        for name in _changed(section):
            if name in _OF_THIS_MACHINE[room]:
                raise ValueError(f"{room}.{name} is for weights on this machine, and {trainer} has none: leave it out")


def _changed(section: Section) -> Iterator[str]:
    """Names of the settings that are not at their defaults."""
    for name, field in type(section).model_fields.items():
        if getattr(section, name) != field.get_default(call_default_factory=True):
            yield name
