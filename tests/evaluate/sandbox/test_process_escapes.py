"""Ways out of the sandbox for a program of its own: those of the self-check, and the same in C."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from pace_async.evaluate.sandbox import cgroup
from pace_async.evaluate.sandbox.claims import PROBES
from pace_async.evaluate.sandbox.converse import Job, Process
from pace_async.evaluate.sandbox.inside import calls
from pace_async.evaluate.sandbox.inside.bundle import pack, pack_folder, unpack
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.selfcheck import PROBE, target_of
from pace_async.evaluate.sandbox.tiers import Limits, Tier
from pace_async.evaluate.sandbox.verdict import JobResult, judge
from tests.evaluate.sandbox.hostile import EVERYWHERE, named
from tests.evaluate.sandbox.tiers import TIERS, left_below
from tests.support.process_tasks import needs_gcc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
each_tier = pytest.mark.parametrize("tier", TIERS)
LIMITS = Limits(seconds=30.0, memory_mb=256, output_bytes=1 << 20)
PYTHON = "/usr/bin/python3"
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


async def run(
    tier: Tier, process: Process, argument: object, limits: Limits = LIMITS, hidden: Path | None = None
) -> JobResult:
    job = Job("", "", [json.dumps(argument)], process=process)
    return await launch(tier, job, limits, [hidden] if hidden is not None else [])


def compiled(folder: Path, body: str) -> Process:
    """A C program whose `attempts` is what it does with the line that it reads."""
    source = folder / "attack.c"
    source.write_text(ATTACK.replace("BODY", dedent(body)))
    subprocess.run(["gcc", "-o", folder / "attack", source], check=True, timeout=60)
    return Process(["./program"], PATH, pack({"program": (folder / "attack").read_bytes()}))


ATTACK = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static char line[1 << 16];
static int tried;
static void got(const char *name, long result) {
    if (result >= 0) printf("%s\\"%s\\"", tried++ ? "," : "[", name);
}
int main(void) {
    if (!fgets(line, sizeof line, stdin)) return 9;
    line[strcspn(line, "\\n") - 1] = 0;  /* a JSON text: without its quotes */
    const char *word = line + 1;
    BODY
    puts(tried ? "]" : "[]");
    fflush(stdout);
    pause();
}
"""
CALLS = """
    got("ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0));
    got("unshare", unshare(CLONE_NEWUSER));
    got("mount", mount("tmpfs", "/tmp", "tmpfs", 0, 0));
    got("chroot", chroot("/tmp"));
    got("setuid", setuid(0));
    got("keyctl", syscall(SYS_keyctl, 0, -3, 1));
    got("io_uring", syscall(SYS_io_uring_setup, 1, line));
    got("bpf", syscall(SYS_bpf, 0, line, 128));
    got("memfd", syscall(SYS_memfd_create, "hidden", 0));
    got("inet", socket(AF_INET, SOCK_STREAM, 0));
    struct rlimit core;
    if (getrlimit(RLIMIT_CORE, &core) || core.rlim_cur != (core.rlim_max < 1 ? 0 : 1)) got("dumps core", 0);
    core.rlim_cur = 0;
    got("core limit", setrlimit(RLIMIT_CORE, &core));
    got("merge memory", prctl(67, 1, 0, 0, 0));
    got("evaluator", open(word, O_RDONLY));
    got("write", open("/usr/lib/left_behind", O_CREAT | O_WRONLY, 0600));
    got("shadow", open("/etc/shadow", O_RDONLY));
    for (int d = 3; d < 256; d++) got("descriptor", fcntl(d, F_GETFD));
"""


@needs_gcc
@each_tier
@pytest.mark.skipif(not calls.MACHINE, reason="the system-call filter does not know this processor")
async def test_a_program_in_c_is_refused_what_a_function_is_refused(tier: Tier, tmp_path: Path) -> None:
    secret = tmp_path / "task" / "evaluator.py"
    secret.parent.mkdir()
    secret.write_text("answer = 42\n")
    ended = await run(tier, compiled(tmp_path, CALLS), str(secret), hidden=secret.parent)
    verdict = judge(ended)
    assert verdict.outcome == "ok", verdict
    assert json.loads(verdict.outputs[0]) == []


ORPHANS = """
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            setsid();
            signal(SIGTERM, SIG_IGN);
            if (fork() == 0) for (;;) pause();
            _exit(0);
        }
"""
FORK_BOMB = "for (;;) fork();"
KILLS_ALL = "kill(-1, SIGKILL); kill(getppid(), SIGKILL); kill(0, SIGKILL);"
HOARDS = "for (;;) { char *more = malloc(1 << 20); if (!more) abort(); memset(more, 1, 1 << 20); }"


@pytest.mark.long
@needs_gcc
@each_tier
@pytest.mark.parametrize(
    ("body", "processor_s", "outcomes"),
    [
        pytest.param(ORPHANS, 60, {"ok"}, id="orphans"),
        pytest.param(FORK_BOMB, 2, {"timeout", "candidate_error"}, id="forks"),
        pytest.param(KILLS_ALL, 60, {"candidate_error", "ok"}, id="kills"),
        pytest.param(HOARDS, 60, {"out_of_memory", "candidate_error"}, id="hoards"),
    ],
)
async def test_nothing_of_a_program_in_c_is_left_and_its_end_is_its_own(
    tier: Tier, tmp_path: Path, body: str, processor_s: int, outcomes: set[str]
) -> None:
    limits = Limits(seconds=60.0, memory_mb=256, output_bytes=1 << 20, processor_s=processor_s)
    ended = await run(tier, compiled(tmp_path, body), "x", limits)
    assert judge(ended).outcome in outcomes, judge(ended)
    assert not ended.survivors
    assert left_below() == []


@pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="the system has no Python of its own")
@each_tier
async def test_a_program_of_its_own_gets_through_nothing_that_its_tier_claims_to_stop(tier: Tier) -> None:
    """The self-check's attacks, in a Python that the program is, with the system's files in sight."""
    called = "import json, sys\nprint(json.dumps(probe(json.loads(sys.stdin.readline()))), flush=True)\n"
    program = f"{PROBE.read_text()}\n{called}"
    process = Process([PYTHON, "-sSPB", "program.py"], PATH, pack({"program.py": program.encode()}))
    limits = Limits(30.0, 256, 1 << 20, readable=(Path("/usr"),))
    with target_of(256) as (target, hidden):
        target["variables"] += PATH
        ended = await launch(tier, Job("", "", [json.dumps(target)], process=process), limits, hidden)
    verdict = judge(ended)
    assert verdict.outcome == "ok", verdict
    stopped = {**json.loads(verdict.outputs[0]), "group": not ended.survivors}
    claimed = set(tier.claims) - {"core"}  # it is dumpable, as what any program starts is, and its limit is not changed
    assert [name for name in PROBES if name in claimed and stopped[name] is not True] == []


@pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="the system has no Python of its own")
@pytest.mark.skipif(not calls.MACHINE, reason="the system-call filter does not know this processor")
@each_tier
async def test_shared_files_can_be_neither_locked_nor_watched_nor_marked_by_a_program_of_its_own(tier: Tier) -> None:
    called = "import json, sys\nprint(json.dumps(f(json.loads(sys.stdin.readline()))), flush=True)\n"
    program = f"{named(EVERYWHERE)}\n{called}"
    process = Process([PYTHON, "-sSPB", "program.py"], PATH, pack({"program.py": program.encode()}))
    ended = await run(tier, process, None, replace(LIMITS, readable=(Path("/usr"),)))
    verdict = judge(ended)
    assert (verdict.outcome, verdict.outputs) == ("ok", (b"[]",)), verdict


@needs_gcc
@each_tier
@pytest.mark.skipif(cgroup.find() is None, reason="no control group can be made")
async def test_without_a_bound_on_its_address_space_a_program_is_held_by_its_control_group(
    tier: Tier, tmp_path: Path
) -> None:
    limits = Limits(60.0, 256, 1 << 20, address_space=False)
    ended = await run(tier, compiled(tmp_path, HOARDS), "x", limits)
    assert judge(ended).outcome in ("out_of_memory", "candidate_error"), judge(ended)


NAMES = {"plain": b"1", "folder/deeper/file": b"\x00\n{}\n", "empty": b""}


def test_a_bundle_gives_its_files_back_and_leaves_links_out(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    unpack(pack(NAMES), str(tmp_path / "there"))
    assert {name: (tmp_path / "there" / name).read_bytes() for name in NAMES} == NAMES
    (tmp_path / "there" / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "there" / "pipe")
    bundle = pack_folder(str(tmp_path / "there"), 1 << 10)
    assert bundle is not None
    (tmp_path / "again").mkdir()
    unpack(bundle, str(tmp_path / "again"))
    assert sorted(
        path.relative_to(tmp_path / "again").as_posix() for path in (tmp_path / "again").rglob("*") if path.is_file()
    ) == sorted(NAMES)
    assert pack_folder(str(tmp_path / "there"), 4) is None


@pytest.mark.parametrize(
    "bundle",
    [
        b'{"name": "../out", "size": 1}\nx',
        b'{"name": "/tmp/out", "size": 1}\nx',
        b'{"name": "a", "size": 9}\nx',
        b"none",
    ],
)
def test_a_bundle_that_leads_out_of_its_folder_or_ends_early_is_refused(tmp_path: Path, bundle: bytes) -> None:
    with pytest.raises(ValueError):
        unpack(bundle, str(tmp_path))
    assert list(tmp_path.iterdir()) == []
