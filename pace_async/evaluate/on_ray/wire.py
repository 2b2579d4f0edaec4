"""The values that cross between the runtime and a node: what a node is to evaluate with, and what it answers."""

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from pace_async import __version__, config
from pace_async.errors import UsageError
from pace_async.evaluate.base import EvaluationId, EvaluationRequest
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.registry.sandbox_tiers import SANDBOX_TIERS
from pace_async.task import Task, TaskSpec, files_of, refuse_if_changed

PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A file of a task's folder: its name there, its permissions and its content."""

    name: str
    mode: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox tier as its self-check found it."""

    name: str
    gaps: tuple[str, ...]

    @classmethod
    def of(cls, tier: Tier) -> "Sandbox":
        return cls(tier.name, tier.gaps)

    def weaker_than(self, other: "Sandbox") -> str:
        """How it is weaker, empty if it is not."""
        names = list(SANDBOX_TIERS)
        if names.index(self.name) > names.index(other.name):
            return f"its sandbox is {self.name}, and this run's is {other.name}"
        gaps = [] if self.name != other.name else sorted(set(self.gaps) - set(other.gaps))
        return f"its sandbox does not stop {', '.join(gaps)}, and this run's does" if gaps else ""


@dataclass(frozen=True, slots=True)
class Order:
    """What a node evaluates with. The task's files come beside it. `sandbox` is the weakest that will do, None for any.
    `machine` is the class of the runtime's machine, and `host` its name, on which the cards `taken` have owners."""

    spec: TaskSpec
    program: str
    digest: str
    evaluation: config.EvaluationConfig
    sandbox: Sandbox | None
    machine: str
    host: str
    taken: Mapping[str, str]

    @classmethod
    def of(
        cls, task: Task, evaluation: config.EvaluationConfig, tier: Tier | None, owners: Mapping[str, str]
    ) -> "Order":
        sandbox = Sandbox.of(tier) if tier is not None else None
        own = evaluation.model_copy(update={"memo": None})
        return cls(task.spec, task.program, task.digest, own, sandbox, machine_here(), platform.node(), dict(owners))

    def same_work(self, other: "Order") -> bool:
        """Whether what is evaluated with one of the two is what is evaluated with the other."""
        return self._of_work() == other._of_work()

    def _of_work(self) -> "Order":
        own = {"slots": 1, "retries": 0, "warm": True, "scorers": 1, "scorer_memory_mb": None}
        names = (name for name in config.EvaluationConfig.model_fields if name.startswith(("ray_", "prune", "repeats")))
        own |= {
            name: config.EvaluationConfig.model_fields[name].get_default(call_default_factory=True) for name in names
        }
        return replace(self, evaluation=self.evaluation.model_copy(update=own), taken={})

    def with_slots(self, slots: int) -> "Order":
        """The order of a node with so many slots."""
        return replace(self, evaluation=self.evaluation.model_copy(update={"slots": slots}))


@dataclass(frozen=True, slots=True)
class Ready:
    """A node that evaluates. `pid` is its actor's process."""

    sandbox: Sandbox
    machine: str
    pid: int


@dataclass(frozen=True, slots=True)
class Known:
    """An evaluation that an actor can be asked for. `asked` distinguishes the program, the seed, the limits and the
    needs from others."""

    identity: EvaluationId
    asked: str
    ended: bool


@dataclass(frozen=True, slots=True)
class Attached:
    """An actor that a runtime has found, of an earlier process of its run."""

    ready: Ready
    known: tuple[Known, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a node must not evaluate for this run, without a full stop."""

    reason: str


@dataclass(frozen=True, slots=True)
class Looked:
    """What a node can do for any run: whether it can evaluate, what its self-check found, what to do if not, and what
    is unreserved there."""

    name: str
    fit: bool
    found: str
    remedy: str = ""
    free: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class News:
    """What a node has to report since the last time: kinds and details of what makes evaluations slower, and the output
    of the task's evaluator."""

    said: tuple[tuple[str, str], ...] = ()
    log: bytes = b""


def files_by_value(task: Task) -> tuple[TaskFile, ...]:
    """The files of a task's folder. Raises UsageError if one cannot be read, or has changed since the task was
    loaded."""
    refuse_if_changed(task)
    spec_files = [name for name in (task.spec.program_file, task.spec.evaluator_file, task.spec.catalogue) if name]
    names = sorted({*spec_files, *files_of(task.folder)})
    try:
        return tuple(
            TaskFile(name, (task.folder / name).stat().st_mode & 0o777, (task.folder / name).read_bytes())
            for name in names
        )
    except OSError as error:
        raise UsageError(f"Cannot read the files of task {task.name!r} for the nodes: {error}.") from None


def write_task(order: Order, files: Sequence[TaskFile], folder: Path) -> Task:
    """The task, with its files in this folder. Raises UsageError if they are not those of its digest."""
    for file in files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode | 0o400)
    task = Task(spec=order.spec, folder=folder, program=order.program, digest=order.digest)
    try:
        refuse_if_changed(task)
    except UsageError:
        raise UsageError("the files of the task that arrived are not those of its digest") from None
    return task


def fingerprint(request: EvaluationRequest) -> str:
    """Distinguishes what is asked from anything else that the same identity may name. It reveals no secret seed."""
    text = repr((request.program, request.seed, request.limits, request.needs))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


@cache
def pace_here() -> str:
    """The version of pace, and a digest of its code: two checkouts of one version may score differently."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        if "_bundled" not in path.parts:
            digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{__version__} ({digest.hexdigest()[:12]})"


@cache
def machine_here() -> str:
    """The class of this machine: times compare only within one."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{platform.machine()} {models[0] if models else platform.processor()}".strip()
