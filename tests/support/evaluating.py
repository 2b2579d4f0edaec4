"""An evaluator of a task, open while a test uses it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.local import LocalEvaluator
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.task import Task


@asynccontextmanager
async def evaluating(task: Task, tier: Tier | None = None) -> AsyncGenerator[LocalEvaluator]:
    chosen = tier or await pick_tier(False)
    async with open_evaluator(task, EvaluationConfig(retries=0), tier=chosen) as evaluator:
        yield evaluator
