"""Builds the implementer of a run from its configuration."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from anyio import to_thread

from pace_async.config import Config, ImplementerConfig
from pace_async.errors import UsageError
from pace_async.implement.agent_folder import AgentFolders
from pace_async.implement.base import Implementer
from pace_async.implement.catalogue import refuse_unless_assigned
from pace_async.implement.model_maker import ModelMaker
from pace_async.implement.pool import BuiltIn, ImplementerPool, Maker
from pace_async.implement.shares import models_of, parse_shares
from pace_async.programs.block_use import why_unused
from pace_async.programs.git import git_is_there
from pace_async.programs.languages import PYTHON
from pace_async.providers.base import CallLedger
from pace_async.providers.chat import open_chats
from pace_async.registry.implementers import ImplementerKind, implementer_of
from pace_async.task import Task

MOVE_MARKS = "put the marks around the algorithm, with all that it defines"
"""What to do about a block that cannot matter."""

AgentFactory = Callable[[str, ImplementerConfig, CallLedger, AgentFolders], Maker]
"""Makes an implementer that runs a command, by its name."""


def lacks_catalogue(model: str, task: Task) -> bool:
    """Whether the setting needs a catalogue and the task has none. Raises UsageError."""
    return task.catalogue_path is None and any(kind.needs_catalogue for kind in _built_in(model))


def only_edits(model: str) -> bool:
    """Whether every program is made by an implementer that needs a catalogue. Raises UsageError."""
    return all(implementer_of(share.model).needs_catalogue for share in parse_shares(model))


def refuse_unless_possible(model: str, task: Task) -> None:
    """Raises UsageError for an invalid setting, or a task that lacks what an implementer needs. Calls no model."""
    if task.spec.has_folder:
        _refuse_for_files(model, task)
    for kind in _built_in(model):
        _implementer_of(kind, task)


def _refuse_for_files(model: str, task: Task) -> None:
    """Raises UsageError for an implementer that cannot change a program of several files."""
    kinds = _kinds(model)
    if edits := next((kind for kind in kinds if kind.needs_catalogue), None):
        raise UsageError(
            f"--implementer {edits.name} edits the lines of one file, and a program of task {task.name!r} is a folder: "
            "name a model or an agent."
        )
    if any(kind.by_advisor for kind in kinds):
        raise UsageError(
            f"An advisor that writes the code itself changes one file, and a program of task {task.name!r} is a "
            "folder: leave advisor.role out, and name an implementer."
        )
    if any(kind.runs_command for kind in kinds) and not git_is_there():
        raise UsageError("An agent changes a program of several files in a Git work tree: install Git.")


def refuse_missing_mechanisms(model: str, task: Task) -> None:
    """Raises UsageError if an implementer edits by the catalogue, and the seed program lacks what it names."""
    if any(kind.needs_catalogue for kind in _built_in(model)):
        refuse_unless_assigned(task)


def unused_block(task: Task) -> str:
    """Why nothing that a model writes into the evolve block of the seed program can matter, as a clause. Empty if
    something can, and for programs in other languages than Python, which are not read."""
    if task.spec.language != PYTHON:
        return ""
    return why_unused(task.program, task.spec.entry if task.spec.of_kind.hides_scorer else None)


def _author(model: str) -> str:
    """Who writes the code, for a sentence. Raises UsageError."""
    by_advisor = any(implementer_of(share.model).by_advisor for share in parse_shares(model))
    return "the advisor" if by_advisor else f"--implementer {model}"


def refuse_unused_block(model: str, task: Task) -> None:
    """Raises UsageError if a model or an agent writes programs, and what it writes cannot matter. Not for a command
    task, whose evaluator may use a program in any way. Calls no model."""
    if only_edits(model) or not task.spec.of_kind.hides_scorer:
        return
    if reason := unused_block(task):
        raise UsageError(
            f"{task.folder / task.spec.program}: {reason}, so what {_author(model)} writes there would be ignored: "
            f"{MOVE_MARKS}, and see `pace task check {task.reference}`."
        )


@asynccontextmanager
async def open_implementer(
    config: Config, task: Task, ledger: CallLedger, folders: AgentFolders | None = None
) -> AsyncGenerator[Implementer]:
    """The implementer, ready for use. It is closed when the context ends. An implementer that runs a command needs
    `folders`. Where the advisor writes the code itself, no call is in the ledger."""
    shares, built_in = parse_shares(config.implementer.model), _built_in(config.implementer.model)
    if len(shares) == len(built_in) == 1 and built_in[0].by_advisor:
        yield _implementer_of(built_in[0], task)
        return
    if len(shares) == len(built_in) == 1:
        yield BuiltIn(built_in[0].name, _implementer_of(built_in[0], task), ledger)
        return
    async with open_chats(models_of(config.implementer.model), config.implementer) as chats:
        makers: dict[str, Maker] = {
            chat.model: ModelMaker(chat, ledger, config.implementer.max_tokens) for chat in chats
        }
        for kind in built_in:
            makers[kind.name] = BuiltIn(kind.name, _implementer_of(kind, task), ledger)
        agents = {share.model: code for share in shares if (code := implementer_of(share.model).agent) is not None}
        if folders is not None:
            for name, code in agents.items():
                makers[name] = code()(name, config.implementer, ledger, folders)
        try:
            yield ImplementerPool(shares, makers, ledger, config.seed, config.implementer, config.faults)
        finally:
            if agents and folders is not None:
                await to_thread.run_sync(folders.close)


def _kinds(model: str) -> list[ImplementerKind]:
    return [implementer_of(share.model) for share in parse_shares(model)]


def _built_in(model: str) -> list[ImplementerKind]:
    return [kind for kind in _kinds(model) if kind.is_built_in]


def _implementer_of(kind: ImplementerKind, task: Task) -> Implementer:
    return kind.load()(task)
