"""Every registry, for code that lists them all."""

from typing import Any

from pace_async.registry.advisors import ADVISORS
from pace_async.registry.base import Registry
from pace_async.registry.corrections import CORRECTIONS, MASKS
from pace_async.registry.displays import DISPLAYS
from pace_async.registry.engines import ADVISOR_ENGINES
from pace_async.registry.evaluators import EVALUATORS
from pace_async.registry.implementers import IMPLEMENTERS
from pace_async.registry.objectives import ALPHA_SCHEDULES, OBJECTIVES
from pace_async.registry.parent_rules import PARENT_RULES
from pace_async.registry.sandbox_tiers import SANDBOX_TIERS
from pace_async.registry.staleness_policies import STALENESS_POLICIES
from pace_async.registry.task_groups import TASK_GROUPS
from pace_async.registry.trainers import TRAINERS
from pace_async.registry.transports import TRANSPORTS
from pace_async.registry.watchers import WATCHERS

TABLES: tuple[tuple[str, Registry[Any]], ...] = (
    ("learner.objective", OBJECTIVES),
    ("learner.alpha_schedule", ALPHA_SCHEDULES),
    ("learner.correction", CORRECTIONS),
    ("learner.mask", MASKS),
    ("learner.trainer", TRAINERS),
    ("search.parents", PARENT_RULES),
    ("staleness.policy", STALENESS_POLICIES),
    ("implementer.model", IMPLEMENTERS),
    ("advisor.model", ADVISORS),
    ("advisor.engine", ADVISOR_ENGINES),
    ("advisor.transport", TRANSPORTS),
    ("evaluation.evaluators", EVALUATORS),
    ("evaluation.unsafe_no_sandbox", SANDBOX_TIERS),
    ("--display", DISPLAYS),
    ("--log", WATCHERS),
    ("--group", TASK_GROUPS),
)
"""Each with the setting or flag that chooses an entry."""
