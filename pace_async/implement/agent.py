"""An agent of the user's as implementer: a command that changes a program in a folder of its own.

Each candidate has a folder with the program, the experiment and the task (`agent_prompt`, `agent_folder`). What the
command leaves in the program's file is the candidate. A failed program is given to the command again, in the same
folder, with the failure as text. The command is trusted: it runs with the user's rights and environment, without a
sandbox. What it leaves goes through the same checks as the answers of models, before it is stored.

Invariant: a reservation of `implementer.price_per_call` is committed before a call and closed exactly once after it,
with the cost that the command reports, or with the price where it reports none. A command that ends with an exit code
other than 0 counts as a failed service, and never earns a reward.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from pace_async.config import ImplementerConfig
from pace_async.errors import CandidateFault, InfrastructureFault
from pace_async.events import ImplementerTry
from pace_async.implement.agent_folder import OUTPUT, AgentFolders, read_program, replace_file
from pace_async.implement.agent_presets import NOT_REPORTED, ReportedCost, command_of, cost_of, failure_of
from pace_async.implement.agent_process import AgentEnded, run_agent
from pace_async.implement.agent_prompt import (
    PROMPT,
    file_of,
    files_for,
    program_files,
    program_of_files,
)
from pace_async.implement.agent_tree import TEXTS, program_left_in
from pace_async.implement.answers import made_by_agent, made_in_folder
from pace_async.implement.base import Experiment, ImplementedProgram, Unusable
from pace_async.implement.edits import UselessProgram
from pace_async.implement.file_answers import globs_of
from pace_async.implement.model_maker import LONGEST_KEPT, refuse_longer, refuse_parent
from pace_async.implement.repair import program_to_change
from pace_async.programs.fileset import Program
from pace_async.providers.base import CallLedger
from pace_async.providers.bill import reserved
from pace_async.providers.failures import CallFailed
from pace_async.providers.redact import holds_secret, redact, without_secrets
from pace_async.search.state import Member
from pace_async.task import Task, TaskSpec

PLACEHOLDER = re.compile(r"\{(prompt|program|folder)\}")
"""What may stand in an argument of the command: the message, the program's file, the folder."""


class AgentMaker:
    """Implements `implement.pool.Maker` by a command. `name` stands in the rows."""

    def __init__(self, name: str, config: ImplementerConfig, ledger: CallLedger, folders: AgentFolders) -> None:
        self._name = name
        self._config = config
        self._ledger = ledger
        self._folders = folders

    async def make(self, task: Task, parent: Member, experiment: Experiment, timeout_s: float) -> ImplementedProgram:
        files, again, lease = files_for(task, parent, experiment), bool(experiment.tries), experiment.lease
        if task.spec.has_folder:
            program = Program.of(program_to_change(parent.program, experiment.tries)).files
            make = partial(self._folders.prepare_tree, lease, program, files, task.spec.ignore)
        else:
            make = partial(self._folders.prepare, lease, files, again=again)
        folder = await anyio.to_thread.run_sync(make)
        price = self._config.price_per_call or 0.0
        cost = _Cost(price)
        try:
            async with reserved(self._ledger, experiment.lease, self._name, price) as call:
                try:
                    await self._run(cost, folder, task, files[PROMPT], timeout_s)
                    program = await _program_in(folder, task, parent, experiment)
                    refuse_longer(program, task.spec.longest_program)
                    call.outcome, call.tried = "ok", self._implementer_try(experiment, "ok", program=program)
                    return ImplementedProgram(program, tried=call.tried)
                except CandidateFault as fault:
                    call.outcome, call.tried = fault.kind, await self._useless(experiment, fault, folder, task)
                    raise Unusable(call.tried) from None
                except InfrastructureFault as fault:
                    call.outcome = fault.kind
                    raise
                finally:
                    call.cost_usd = cost.usd
        finally:
            with anyio.CancelScope(shield=True):
                for kind, detail in cost.faults():
                    await self._ledger.fault(kind, detail, experiment.lease)

    async def _run(self, cost: "_Cost", folder: Path, task: Task, prompt: str, timeout_s: float) -> None:
        """Run the command to its end, and keep what it costs. Raises CallFailed."""
        program = folder if task.spec.has_folder else folder / file_of(task.spec)
        texts = folder / TEXTS if task.spec.has_folder else folder
        template = command_of(self._name, self._config)
        command = words_of(template, {"prompt": prompt, "program": str(program), "folder": str(folder)})
        stdin = Path(os.devnull) if any("{prompt}" in word for word in template) else texts / PROMPT
        try:
            ended = await run_agent(command, folder, stdin, self._folders.log, timeout_s)
        except TimeoutError:
            raise CallFailed(
                "timeout", f"not done within {round(timeout_s, 1):g} s", charged=None, of_this_prompt=True
            ) from None
        cost.reported = cost_of(self._name, ended.output, self._config)
        await anyio.to_thread.run_sync(_keep_output, folder, texts, ended)
        if ended.failed:
            cost.started = False
            raise CallFailed("not_installed", redact(f"{command[0]}: {ended.failed}"))
        if ended.code != 0:
            raise CallFailed("agent_failed", _failure_reason(ended, failure_of(self._name, ended.output)))

    async def _useless(self, experiment: Experiment, fault: CandidateFault, folder: Path, task: Task) -> ImplementerTry:
        """The try of an agent that left no program to evaluate."""
        if isinstance(fault, UselessProgram):
            return self._implementer_try(experiment, fault.kind, fault.detail, fault.program)
        answer = await anyio.to_thread.run_sync(_left_in, folder, task)
        return self._implementer_try(experiment, fault.kind, fault.detail, None, answer)

    def _implementer_try(
        self, experiment: Experiment, outcome: str, detail: str = "", program: str | None = None, answer: str = ""
    ) -> ImplementerTry:
        number, text = len(experiment.tries) + 1, answer if answer.strip() else None
        return ImplementerTry(number, self._name, outcome, detail, program, text)


@dataclass(slots=True)
class _Cost:
    """What a call costs. `price` counts until the command reports a cost."""

    price: float
    reported: ReportedCost = NOT_REPORTED
    started: bool = True

    @property
    def usd(self) -> float:
        """The cost of the call, as reported or assumed."""
        if self.reported.usd is not None:
            return self.reported.usd
        return self.price if self.started else 0.0

    def faults(self) -> Iterator[tuple[str, str]]:
        """Faults of what the command reports."""
        if self.reported.mistake:
            counted = f"the call counts with implementer.price_per_call, {self.price:g} USD"
            yield "invalid_cost", redact(f"the agent's {self.reported.mistake}: {counted}")
        elif self.price and self.usd > self.price:
            message = f"a call cost {self.usd:g} USD, more than implementer.price_per_call ({self.price:g} USD)"
            yield "cost_above_price", f"{message}: it counts in full; raise the setting to what a call may cost at most"


def words_of(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The command with its placeholders filled in. A value is not searched for placeholders."""
    return [_word(PLACEHOLDER.sub(lambda match: values[match[1]], word)) for word in command]


def _word(text: str) -> str:
    """As the kernel takes an argument: without NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


async def _program_in(folder: Path, task: Task, parent: Member, experiment: Experiment) -> str:
    """The program that the agent left. Raises CandidateFault, and InfrastructureFault if it holds a secret of this
    machine, which is not stored."""
    spec, before = task.spec, program_to_change(parent.program, experiment.tries)
    if spec.has_folder:
        return await _program_in_tree(folder, spec, before, parent, experiment)
    names = tuple(program_files(spec, before))
    text = program_of_files(spec, await anyio.to_thread.run_sync(read_program, folder, names))
    if holds_secret(text):
        raise InfrastructureFault("secret_in_answer", "the program that the agent left holds a secret variable's value")
    program = await made_by_agent(text, before, spec.language, spec.entry)
    await refuse_parent(program, parent.program, experiment, spec.language)
    return program


async def _program_in_tree(folder: Path, spec: TaskSpec, before: str, parent: Member, experiment: Experiment) -> str:
    """The same for a program of several files."""
    known = Program.of(before).files
    files = await anyio.to_thread.run_sync(program_left_in, folder, known, spec.ignore)
    if any(holds_secret(text) for path, text in files.items() if known.get(path) != text):
        raise InfrastructureFault("secret_in_answer", "a file that the agent left holds a secret variable's value")
    program = await made_in_folder(files, before, globs_of(spec.change, spec.hide))
    await refuse_parent(program, parent.program, experiment, spec.language)
    return program


def _left_in(folder: Path, task: Task) -> str:
    """The beginning of the program's first file, for the row of a useless try. Without secrets. Nothing of several
    files."""
    if task.spec.has_folder:
        return ""
    try:
        text = read_program(folder, (file_of(task.spec),))[file_of(task.spec)]
    except CandidateFault:
        return ""
    return without_secrets(text)[:LONGEST_KEPT]


def _keep_output(folder: Path, texts: Path, ended: AgentEnded) -> None:
    if folder.is_symlink() or texts.is_symlink():  # the agent put a link in its place
        return
    with contextlib.suppress(OSError):
        replace_file(texts / OUTPUT, without_secrets(f"{ended.output}\n{ended.errors}"))


def _failure_reason(ended: AgentEnded, failure: str) -> str:
    """The exit code, and the `failure` that the command reported, or the last line that it wrote."""
    written = (failure,) if failure else (ended.output, ended.errors)
    lines = [line for text in written for line in text.splitlines() if line.strip()]
    last = f": {lines[-1].strip()}" if lines else ""
    code = ended.code
    how = "without an exit code" if code is None else f"with {f'exit code {code}' if code >= 0 else f'signal {-code}'}"
    return redact(f"the agent ended {how}{last}")
