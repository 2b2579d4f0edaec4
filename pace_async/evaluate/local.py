"""The evaluator of this machine: a candidate runner and a scorer, with slots, memo and retries around them.

program ─► memo? ─► build? ─► slot ─► runner (sandbox) ─► `verdict` ─► scorer ─► Evaluation

The runner and the scorer do not know each other. This module contains the rest: slots, the memo, retries after a
failure of the machine, and a second run alone if a program may not be to blame for its end. A program of a process task
is built before it gets its slot, in a separate sandbox and slot. `assemble` puts the parts together.
"""

import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio

from pace_async import config
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate.base import SECRET_SEEDS, Evaluation, EvaluationId, EvaluationRequest, Limits
from pace_async.evaluate.builds import BuildFailed, Builds
from pace_async.evaluate.commands import Commands
from pace_async.evaluate.identities import Attempt, Attempts, BackgroundEvaluator, attempted_once
from pace_async.evaluate.memo import Key, ScoreMemo
from pace_async.evaluate.practice import printed
from pace_async.evaluate.resources import NOTHING_OWNED, Slot
from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import CandidateRunner
from pace_async.evaluate.sandbox.verdict import JobResult, doubt, judge, one_line
from pace_async.evaluate.scorer.scorer_client import EvaluatorFailed, Outputs, OverBound, ScorerResult, Scorers
from pace_async.evaluate.several import come_to
from pace_async.programs.compiled import compiled_off_loop, digest_as_it_is, longest_of
from pace_async.programs.text import parted
from pace_async.task import FULL, PRACTICE, Task
from pace_async.task.several_files import why_no_program

BACKOFF_S = 0.1


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a LocalEvaluator. `setting` names the environment in the memo's keys. `builds` are set for a process
    task, `commands` for a command task, which has no scorers. `say` is called with the kind and the detail of a fault
    that makes evaluations slower. `slots` are those of the evaluations, by default as many as configured, which own
    nothing, and `variables` are passed on to programs."""

    runner: CandidateRunner
    scorers: Scorers | None
    memo: ScoreMemo | None
    setting: str
    builds: Builds | None = None
    say: Callable[[str, str], Awaitable[None]] | None = None
    commands: Commands | None = None
    slots: tuple[Slot, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


class LocalEvaluator(BackgroundEvaluator):
    """The evaluator of this machine."""

    def __init__(self, task: Task, evaluation: config.EvaluationConfig, parts: Parts) -> None:
        self.task, self.parts = task, parts
        self.turns = Turns()
        self._retries = evaluation.retries
        self._slots = Slots(parts.slots or (NOTHING_OWNED,) * evaluation.slots)
        self._share = min(1.0, len(os.sched_getaffinity(0)) / self._slots.count)

    @property
    def is_warm(self) -> bool:
        """Whether the next candidate will be forked from a warm parent."""
        return self.parts.runner.is_warm

    async def refuse_unless_fresh(self) -> None:
        """Raises UsageError if the task's evaluator cannot make the instances of a secret seed, which has 129 bits."""
        if self.parts.scorers is not None:
            await self.parts.scorers.instances(SECRET_SEEDS)

    async def submit(self, request: EvaluationRequest) -> None:
        """See `base.Evaluator`. Raises UsageError for a request that needs more GPUs than a slot owns."""
        own = len(self._slots.first.cards)
        if request.needs.gpus > own:
            raise UsageError(f"An evaluation gets {own} GPUs here, and one was asked for with {request.needs.gpus:g}.")
        await super().submit(request)

    def known(self) -> Mapping[EvaluationId, Evaluation | None]:
        """See `Identities.known`."""
        return self._identities.known()

    async def _evaluated(self, request: EvaluationRequest) -> Evaluation:
        """Nothing is run for a program that is refused at once, or whose score is known."""
        if complaint := refused(request.program, self.task):
            return _unrun(request, Evaluation("candidate_error", None, 0.0, complaint))
        try:
            read = await compiled_off_loop(request.program, self.task.spec.language)
        except InfrastructureFault as fault:
            return _unrun(request, Evaluation("infrastructure_error", None, 0.0, one_line(str(fault))))
        if read.too_much:
            return _unrun(request, Evaluation("candidate_error", None, 0.0, read.fault))
        memo = self.parts.memo
        if memo is None or request.seed >= SECRET_SEEDS:
            return await self._evaluate_with_retries(request)
        setting = self.parts.setting if request.stage == FULL else f"stage={request.stage} {self.parts.setting}"
        key = Key(self.task.digest, request.seed, digest_as_it_is(request.program), setting)
        known = await memo.get(key)
        if known is not None:
            return _unrun(request, known)
        result = await self._evaluate_with_retries(request)
        await memo.put(key, result)
        return result

    async def _evaluate_with_retries(self, request: EvaluationRequest) -> Evaluation:
        """Evaluate, and again after a failure of the machine."""
        attempts = Attempts(request, "evaluator" if self.parts.scorers is None else "scorer")
        result = await self._try(request, attempts)
        for retry in range(self._retries):
            if result.outcome != "infrastructure_error":
                break
            await anyio.sleep(BACKOFF_S * 2**retry)
            result = await self._try(request, attempts)
        return attempts.result(result)

    async def _try(self, request: EvaluationRequest, attempts: Attempts) -> Evaluation:
        """One attempt, or two if the first may have another cause."""
        attempt = Attempt()
        own = self.parts.commands or self.parts.builds
        limits = request.limits if own is None else own.limits(request.limits)
        try:
            job = await self._job(request)
            attempt.asked = time.monotonic()
            async with self._slots.one() as slot, self.turns.together():
                attempt.begin()
                ended = await self._run(job, limits, slot)
                attempt.ran = ended.seconds
            if (doubted := doubt(ended, self._share)) is not None:
                verdict = judge(ended)
                first = Evaluation(verdict.outcome, None, ended.seconds, f"{doubted}: run once more, alone")
                attempts.end(attempt, first, accepted=False)
                attempt = Attempt()
                async with self.turns.alone():
                    attempt.begin()
                    ended = await self._run(job, limits, self._slots.first)
                    attempt.ran = ended.seconds
                if doubt(ended, 1.0) not in (None, doubted):
                    raise InfrastructureFault("evaluation_disturbed", "it was starved once and killed once")
            evaluation = await self._evaluation_of(request, ended)
        except BuildFailed as failed:
            evaluation = failed.evaluation
        except InfrastructureFault as fault:
            if fault.kind == "scorer_died":
                await self._say(fault.kind, f"{one_line(fault.detail)}; another is started for the next score")
            error = one_line(fault.detail) if isinstance(fault, EvaluatorFailed) else ""
            detail = one_line(str(fault))
            evaluation = Evaluation("infrastructure_error", None, attempt.seconds, detail, evaluator_error=error)
        return attempts.end(attempt, evaluation, accepted=evaluation.outcome != "infrastructure_error")

    async def _job(self, request: EvaluationRequest) -> Job:
        if self.parts.commands is not None:
            return self.parts.commands.job(request)
        spec, scorers = self.task.spec, self._scorers
        instances, cold = await scorers.instances(request.seed, request.stage), request.stage == PRACTICE
        if self.parts.builds is not None:
            process = await self.parts.builds.process(request.program, self._undisturbed)
            job = Job("", "", instances, timed=scorers.timed, process=process, cold=cold)
            return self._followed(job, request)
        (_, first), *others = parted(request.program) if spec.files else (("", request.program),)
        job = Job(first, spec.entry, instances, timed=scorers.timed, files=dict(others), cold=cold)
        return self._followed(job, request)

    def _followed(self, job: Job, request: EvaluationRequest) -> Job:
        """The job, stopped where the scorer finds its outputs so far below the bar, if the request has one."""
        if request.bar is None or not self._scorers.reports:
            return job

        async def value(texts: Sequence[bytes], calls: Sequence[float], echoes: Sequence[float]) -> float | None:
            async with self._scorers.one() as scorer:
                try:
                    scored = await scorer.score(_outputs(request, texts, calls, echoes), so_far=True)
                except InfrastructureFault as fault:  # the outputs may be to blame: their score will tell
                    scored = ScorerResult(None, {}, "", fault.detail)
            if scored.raised:
                await self._say("no_value", f"so_far of the task's evaluator: {one_line(scored.raised)}")
            return scored.score

        return replace(job, bar=request.bar, value=value)

    @property
    def _scorers(self) -> Scorers:
        assert self.parts.scorers is not None, "a command task has its own evaluator"
        return self.parts.scorers

    async def _undisturbed(self, job: Job, limits: Limits) -> JobResult:
        """How a build ended. If another cause is possible for the first end, it is built a second time, alone."""
        async with self._slots.one() as slot, self.turns.together():
            ended = await self._run(job, limits, slot)
        if doubt(ended, self._share) is None:
            return ended
        async with self.turns.alone():
            return await self._run(job, limits, self._slots.first)

    async def _run(self, job: Job, limits: Limits, slot: Slot) -> JobResult:
        """Run it with what the slot owns. A caller that is alone may take any slot."""
        runner, variables = self.parts.runner, self.parts.variables
        if slot != NOTHING_OWNED:
            variables = {**slot.variables(alone=runner.hides_files), **variables}
            limits = slot.limits(limits)
        return await runner.run(replace(job, variables=variables), limits)

    async def _disturbed(self, fault: OverBound) -> None:
        detail = f"the process of the task's evaluator {one_line(fault.detail)}, another did not with the same outputs"
        await self._say(fault.kind, detail)

    async def _say(self, kind: str, detail: str) -> None:
        if self.parts.say is not None:
            await self.parts.say(kind, detail)

    async def _evaluation_of(self, request: EvaluationRequest, ended: JobResult) -> Evaluation:
        if self.parts.commands is not None:
            return come_to(self.task.spec, request.stage, self.parts.commands.evaluation(ended))
        verdict = judge(ended)
        feedback = printed(ended) if request.stage == PRACTICE else ""
        if verdict.outcome != "ok":
            return Evaluation(
                verdict.outcome, None, ended.seconds, verdict.detail, feedback=feedback, curve=ended.curve
            )
        outputs = _outputs(request, verdict.outputs, ended.calls, ended.echoes)
        scored = await score_fairly(self._scorers, self.turns, outputs, self._disturbed)
        if scored.score is None:
            detail, error = one_line(scored.invalid), one_line(scored.raised)
            return Evaluation(
                "invalid_score",
                None,
                ended.seconds,
                detail,
                evaluator_error=error,
                feedback=feedback,
                curve=ended.curve,
            )
        evaluation = Evaluation(
            "ok", scored.score, ended.seconds, "", scored.metrics, feedback=feedback, curve=ended.curve
        )
        return come_to(self.task.spec, request.stage, evaluation)


class Slots:
    """Gives each evaluation a slot, in order of arrival. Invariant: a slot is held by one evaluation at a time."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._limiter, self._free = anyio.CapacityLimiter(len(slots)), list(reversed(slots))
        self.first, self.count = slots[0], len(slots)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[Slot]:
        """A free slot. Waits for one."""
        async with self._limiter:
            slot = self._free.pop()
            try:
                yield slot
            finally:
                self._free.append(slot)


@dataclass(eq=False, slots=True)
class _Waiting:
    alone: bool
    admitted: anyio.Event = field(default_factory=anyio.Event)


class Turns:
    """A fair lock with two modes, together (shared) and alone (exclusive): an evaluation can get the machine to itself.
    Everything that one evaluator runs or scores holds it in one of the two modes.

    Invariant: an exclusive holder is the only holder, and requests are granted in order of arrival. So later requests
    never delay an exclusive one, and it delays no earlier one. A holder must not ask again before it has left: that
    would deadlock."""

    def __init__(self) -> None:
        self._inside = 0
        self._held = False
        self._waiting: deque[_Waiting] = deque()

    @asynccontextmanager
    async def together(self) -> AsyncGenerator[None]:
        """Shared: with any number of other shared holders."""
        await self._enter(_Waiting(alone=False))
        try:
            yield
        finally:
            self._leave()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Exclusive: with no other holder."""
        await self._enter(_Waiting(alone=True))
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self._admit()
        try:
            await waiting.admitted.wait()
        except BaseException:
            if waiting.admitted.is_set():
                self._leave()
            else:
                self._waiting.remove(waiting)
                self._admit()
            raise

    def _leave(self) -> None:
        self._inside -= 1
        self._held = False
        self._admit()

    def _admit(self) -> None:
        while self._waiting and not self._held and not (self._waiting[0].alone and self._inside):
            first = self._waiting.popleft()
            self._inside += 1
            self._held = first.alone
            first.admitted.set()


async def score_fairly(
    scorers: Scorers, turns: Turns, outputs: Outputs, disturbed: Callable[[OverBound], Awaitable[None]] | None = None
) -> ScorerResult:
    """Outputs that exceed a bound of a scorer twice are an invalid score, and no OverBound is raised. Waits for a
    scorer. `disturbed` is called with a failure that the outputs did not cause, for instance of a scorer that hung.

    Invariants: whoever holds a scorer waits for no turn, because an evaluation that has a turn waits for a scorer. A
    candidate is charged for a failure of a scorer (a bound exceeded, a crash) only if its outputs cause it twice, the
    second time in a fresh scorer while nothing else runs. Any other failure of a scorer is the infrastructure's."""
    try:
        async with turns.together(), scorers.one() as scorer:
            return await scorer.score(outputs)
    except OverBound as first:
        doubted = first  # the cause may be the machine, or outputs scored before
    async with turns.alone(), scorers.fresh() as fresh:
        await fresh.instances(outputs.seed, outputs.stage)
        try:
            scored = await fresh.score(outputs)
        except OverBound as again:
            reason = f"scoring its outputs {again.detail}"
            return ScorerResult(None, {}, reason, reason)
    if disturbed is not None:
        await disturbed(doubted)
    return scored


def _outputs(
    request: EvaluationRequest, texts: Sequence[bytes], calls: Sequence[float], echoes: Sequence[float]
) -> Outputs:
    overhead = min(echoes, default=0.0)
    return Outputs(request.seed, texts, [max(0.0, call - overhead) for call in calls], overhead, request.stage)


def _unrun(request: EvaluationRequest, evaluation: Evaluation) -> Evaluation:
    return attempted_once(request, evaluation, time.time())


def refused(program: str, task: Task) -> str:
    """Why a text is not a program of this task, if so: it is too long, or consists of other files. A program without
    file names is the task's first file alone."""
    if len(program) > (longest := longest_of(program)):
        return f"the program is longer than {longest} characters"
    spec = task.spec
    if spec.has_folder:
        return why_no_program(program, task.program, spec)
    names = [name for name, _ in parted(program)] if spec.files else [""]
    known = (spec.program, *spec.files)
    if names == [""] or (names[0] == spec.program and len(set(names)) == len(names) and set(names) <= set(known)):
        return ""
    return f"a program of this task consists of {', '.join(known)}, each once; this one of {', '.join(names)}"
