"""Finds the sandbox tier of this machine: a program in each tier tries to escape (`probe`).

Invariant: a tier that has not stopped every attack that it claims to stop is not used. Other attacks that succeeded are
reported.
"""

import json
import os
import secrets
import socket
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pace_async.durable import temporary_folder
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate.sandbox import leftovers
from pace_async.evaluate.sandbox.claims import PROBES
from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.python_files import locate
from pace_async.evaluate.sandbox.tiers import (
    LIBRARY_HEADROOM_MB,
    VARIABLES,
    Limits,
    NotInstalled,
    Tier,
)
from pace_async.evaluate.sandbox.verdict import judge
from pace_async.evaluate.sandbox.warm import WarmParent
from pace_async.gpus import all_nodes
from pace_async.registry.sandbox_tiers import SANDBOX_TIERS

PACKAGE = Path(__file__).parents[2]
REMEDY = "install bubblewrap (apt-get install bubblewrap), or allow --unsafe-no-sandbox for code that you trust"
PROBE = Path(__file__).with_name("probe.py")
CHECK_S = 30.0
CHECK_MB = 256


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one tier's self-check: names of PROBES that succeeded, or why it did not run at all."""

    tier: Tier
    gaps: tuple[str, ...] = ()
    broken: str = ""

    @property
    def proven(self) -> bool:
        """Whether the tier may be used."""
        return bool(self.tier.claims) and not self.broken and not set(self.gaps) & set(self.tier.claims)

    @property
    def reason(self) -> str:
        """Why it was not proven."""
        claimed = [PROBES[name] for name in self.gaps if name in self.tier.claims]
        return self.broken or "a candidate can " + ", ".join(claimed)


async def pick_tier(unsafe: bool) -> Tier:
    """The first tier of the registry that proves itself on this machine. A tier that trusts candidates is used only if
    `unsafe`. Raises UsageError, with the remedy, if there is none, or no folder for temporary files."""
    temporary_folder()
    refused: list[str] = []
    for entry in SANDBOX_TIERS.values():
        if entry.trusts is not unsafe:
            continue
        try:
            variants = entry.load()()
        except NotInstalled as missing:
            refused.append(str(missing))
            continue
        for tier in variants:
            if unsafe:
                return tier
            check = await check_tier(tier)
            if check.proven:
                return replace(tier, gaps=check.gaps)
            refused.append(f"{tier.name}: {check.reason}")
    raise UsageError(f"No sandbox could be proven on this machine ({'; '.join(refused)}): {REMEDY}.")


def describe(tier: Tier) -> str:
    """One line for display: the isolation between a candidate and this machine."""
    if not tier.isolates:
        return "sandbox: none; candidates run as you do"
    if not tier.gaps:
        return f"sandbox: {tier.name}, proven by its self-check"
    return f"sandbox: {tier.name}; a candidate can still " + ", ".join(PROBES[name] for name in tier.gaps)


async def unproven(tier: Tier, warm: WarmParent, hidden: Sequence[Path]) -> str:
    """Why forks of this parent, with these folders hidden, must not be used. Empty if they may."""
    check = await check_tier(tier, warm, hidden)
    return "" if check.proven else check.reason


async def check_tier(tier: Tier, warm: WarmParent | None = None, hidden: Sequence[Path] = ()) -> Check:
    """Run the probe in the tier. With `warm`, run it in a fork of that parent, with these folders hidden."""
    with target_of(CHECK_MB) as (target, secret):
        job = Job(PROBE.read_text(), "probe", [json.dumps(target)])
        try:
            ended = await launch(tier, job, Limits(CHECK_S, CHECK_MB, 1 << 16), hidden or secret, warm)
        except InfrastructureFault as fault:
            return Check(tier, broken=str(fault))
    verdict = judge(ended)
    if verdict.outcome != "ok":
        return Check(tier, broken=verdict.detail or verdict.outcome)
    stopped = {**json.loads(verdict.outputs[0]), "group": not ended.survivors}
    return Check(tier, tuple(name for name in PROBES if stopped[name] is not True))


async def refuse_unless_owned(tier: Tier, slots: Sequence[Limits]) -> None:
    """Raises UsageError unless an evaluation with each of these limits, which name the devices of a slot, can open its
    own devices and those of no other slot. A tier that does not hide files is not tried."""
    if "files" not in tier.claims:
        return
    nodes = sorted({str(node) for limits in slots for node in limits.devices} | {str(node) for node in all_nodes()})
    job = Job(PROBE.read_text(), "reach", [json.dumps(nodes)])
    for limits in dict.fromkeys(slots):
        ended = await launch(tier, job, limits, ())
        verdict = judge(ended)
        if verdict.outcome != "ok":
            raise UsageError(f"The sandbox cannot be given the GPUs of an evaluation: {verdict.detail}.")
        opened, own = set(json.loads(verdict.outputs[0])), set(map(str, limits.devices))
        if closed := sorted(own - opened):
            raise UsageError(
                f"An evaluation cannot open its GPU in the sandbox ({', '.join(closed)}): `ls -l` says who may."
            )
        if foreign := sorted(opened - own):
            raise UsageError(f"An evaluation can open GPUs of others in the sandbox ({', '.join(foreign)}).")


@contextmanager
def target_of(memory_mb: int) -> Generator[tuple[dict[str, Any], tuple[Path, ...]]]:
    """The probe's targets under this limit of memory, and the folders to hide from it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=leftovers.prefix())))
        secret = folder / "evaluator.py"
        secret.write_text("answer = 42\n")
        target = {
            "variables": [*VARIABLES, "TMPDIR", "PWD", "LC_CTYPE"],
            "canary": _own_canary(),
            "files": [str(secret), str(PACKAGE / "errors.py")],
            "folders": [str(folder), str(locate().imports[0]), "/usr/lib", "/etc"],
            "cards": [str(node) for node in all_nodes()],
            "port": _listen(stack),
            "pid": os.getpid(),
            "megabytes": memory_mb + LIBRARY_HEADROOM_MB + 64,
        }
        yield target, (PACKAGE, folder)


def _listen(stack: ExitStack) -> int:
    """A TCP port, and two abstract sockets named after it, that would take a connection or a datagram."""
    channel = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    channel.bind(("127.0.0.1", 0))
    channel.listen()
    port = int(channel.getsockname()[1])
    local = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    local.bind(f"\0pace-{port}")
    local.listen()
    datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    datagrams.bind(f"\0pace-{port}-datagrams")
    return port


def _own_canary() -> str:
    """A text that stands in this process's environment and in no candidate's."""
    first = Path("/proc/self/environ").read_bytes().split(b"\0")
    assignments = {f"{name}={value}" for name, value in VARIABLES.items()}
    texts = [text for text in (part.decode("utf-8", "replace") for part in first) if text and text not in assignments]
    return max(texts, key=len, default=f"no canary {secrets.token_hex(8)}")
