"""Programs of a process task, built once each and kept by the digest of their text.

Invariants: a build runs in a sandbox like a candidate, without network, under its own limits. Its files are never read
here: the sandbox that runs the program unpacks them. A failed build is the candidate's fault, with the compiler's first
error. A fault of the machine, and a build that could not run, are not remembered.
"""

import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import anyio

from pace_async.errors import CandidateFault, InfrastructureFault
from pace_async.evaluate.base import Evaluation, Limits
from pace_async.evaluate.sandbox import leftovers
from pace_async.evaluate.sandbox.converse import Job, Process
from pace_async.evaluate.sandbox.inside.bundle import pack
from pace_async.evaluate.sandbox.toolchain import Toolchain
from pace_async.evaluate.sandbox.verdict import JobResult, judge, one_line
from pace_async.events import Outcome
from pace_async.programs.compiled import digest_as_it_is
from pace_async.programs.languages import BUILD_FAILED, first_error
from pace_async.task import TaskSpec

KEPT_BYTES = 256 << 20
MOST_KEPT = 10_000
"""How many programs' build results are remembered."""
SCRATCH_MB = 512
Run = Callable[[Job, Limits], Awaitable[JobResult]]


class BuildFailed(CandidateFault):
    """A program could not be built. `evaluation` is its result."""

    def __init__(self, outcome: Outcome, detail: str, seconds: float) -> None:
        super().__init__("build_failed", detail)
        self.evaluation = Evaluation(outcome, None, seconds, one_line(f"{BUILD_FAILED}{detail}"))


class Builds(AbstractContextManager["Builds"]):
    """The builds of one evaluator, kept in a temporary folder. Use as a context manager."""

    def __init__(self, spec: TaskSpec, toolchain: Toolchain) -> None:
        self._spec, self._toolchain = spec, toolchain
        self._kept: dict[str, Path | BuildFailed] = {}
        self._sizes: dict[str, int] = {}
        self._folder = tempfile.TemporaryDirectory(prefix=leftovers.prefix(), ignore_cleanup_errors=True)

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def limits(self, limits: Limits) -> Limits:
        """The limits of a run, with the files that a program of this task may read."""
        own_threads = self._spec.written_in.needs_threads
        return replace(limits, readable=self._toolchain.readable, address_space=not own_threads)

    async def process(self, program: str, run: Run) -> Process:
        """The command and files of a program, built with `run` if it was not built before. Raises BuildFailed and
        InfrastructureFault."""
        files = pack({self._spec.program: program.encode("utf-8", "surrogatepass")})
        if self._spec.build:
            files = await self._built(digest_as_it_is(program), files, run)
        return Process(self._spec.run, self._environment(), files, one_thread=not self._spec.written_in.needs_threads)

    async def _built(self, digest: str, source: bytes, run: Run) -> bytes:
        entry = self._kept.get(digest)
        if isinstance(entry, BuildFailed):
            raise entry
        if entry is not None:
            self._sizes[digest] = self._sizes.pop(digest)
            with suppress(FileNotFoundError):  # it was removed for another meanwhile, or by a clean-up
                return await anyio.Path(entry).read_bytes()
        try:
            files = await self._build(source, run)
        except BuildFailed as failed:
            if failed.evaluation.outcome == "candidate_error" and len(self._kept) < MOST_KEPT:
                self._kept[digest] = failed
            raise
        await self._keep(digest, files)
        return files

    async def _build(self, source: bytes, run: Run) -> bytes:
        spec, most = self._spec, int(self._spec.build_mb * (1 << 20))
        process = Process(spec.build, self._environment(), source, most)
        limits = Limits(
            spec.build_timeout_s,
            spec.build_memory_mb,
            most + (1 << 20),
            scratch_mb=SCRATCH_MB,
            readable=self._toolchain.readable,
            address_space=False,
        )
        ended = await run(Job("", "", ["null"], process=process), limits)
        verdict = judge(ended)
        match verdict.outcome:
            case "ok":
                return verdict.outputs[0]
            case "infrastructure_error":
                raise InfrastructureFault("build", verdict.detail)
            case "timeout":
                raise BuildFailed("timeout", f"it took more than {spec.build_timeout_s:g} s", ended.seconds)
            case "out_of_memory":
                raise BuildFailed("out_of_memory", f"it took more than {spec.build_memory_mb} MiB", ended.seconds)
            case _:
                message = (
                    self._build_error(ended.answers.reason) if ended.answers.failure == "error" else verdict.detail
                )
                raise BuildFailed("candidate_error", message or "it ended without a message", ended.seconds)

    def _build_error(self, reason: bytes) -> str:
        """The first error of the build command, or how it ended without one."""
        try:
            value: object = json.loads(reason)
        except (ValueError, RecursionError):
            return ""
        how, _, output = value.partition("\n") if isinstance(value, str) else ("", "", "")
        return first_error(self._spec.written_in, output) or how

    async def _keep(self, digest: str, files: bytes) -> None:
        """Nothing is kept where the disk is full: the program is built again."""
        path = Path(self._folder.name) / digest
        try:
            await anyio.Path(path).write_bytes(files)
        except OSError:
            await anyio.Path(path).unlink(missing_ok=True)
            return
        self._kept[digest], self._sizes[digest] = path, len(files)
        while sum(self._sizes.values()) > KEPT_BYTES and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            del self._sizes[oldest], self._kept[oldest]
            await anyio.Path(self._folder.name, oldest).unlink(missing_ok=True)

    def _environment(self) -> Mapping[str, str]:
        return {"PATH": self._toolchain.path, **self._spec.written_in.environment}
