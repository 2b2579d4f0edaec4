"""Calls that reach other processes, or leave something for the next program: made from inside, in every sandbox."""

import resource
import signal
import sys

import pytest

from pace_async.evaluate.sandbox.inside import calls
from pace_async.evaluate.sandbox.tiers import Rlimits
from tests.evaluate.sandbox.hostile import EVERYWHERE, named
from tests.evaluate.sandbox.plain_user import FilterAlone
from tests.evaluate.sandbox.tiers import SANDBOXES, Sandbox, run_program, value_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux"),
    pytest.mark.skipif(not calls.MACHINE, reason="the system-call filter does not know this processor"),
]
FILTER_ALONE = pytest.param(Sandbox(FilterAlone()), id="filter_alone")
each_sandbox = pytest.mark.parametrize("sandbox", [*SANDBOXES, FILTER_ALONE])
without_namespaces = pytest.mark.parametrize("sandbox", [pytest.param(Sandbox(Rlimits()), id="rlimits"), FILTER_ALONE])


@each_sandbox
@pytest.mark.fault("Programs as weapons", "kernel objects used up")
@pytest.mark.fault("Programs as weapons", "state left for the next candidate")
async def test_shared_files_can_be_neither_locked_nor_watched_nor_marked(sandbox: Sandbox) -> None:
    assert await value_of(sandbox, named(EVERYWHERE)) == []


@each_sandbox
@pytest.mark.fault("Programs as weapons", "core dumps")
async def test_no_crash_is_handed_to_a_program_outside(sandbox: Sandbox) -> None:
    program = """
    import ctypes, os, resource
    def lowered():
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            return True
        except ValueError:
            return False
    def f(x):
        limits = resource.getrlimit(resource.RLIMIT_CORE)
        return [ctypes.CDLL(None).prctl(3), *limits, lowered()]
    """
    before = resource.getrlimit(resource.RLIMIT_CORE)[1]
    most = 1 if before == resource.RLIM_INFINITY else min(1, before)
    assert await value_of(sandbox, program) == [0, most, most, False]


I386 = """
    import ctypes, mmap
    def f(x):
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid of i386); int 0x80; ret
        return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
X32 = """
    import ctypes
    def f(x):
        return ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39))
"""


@each_sandbox
@pytest.mark.parametrize("program", [I386, X32], ids=["i386", "x32"])
@pytest.mark.skipif(calls.MACHINE != "x86_64", reason="only x86-64 has other ways into the kernel")
async def test_a_call_that_comes_into_the_kernel_by_another_way_ends_the_program(
    sandbox: Sandbox, program: str
) -> None:
    verdict, ended = await run_program(sandbox, program)
    assert (verdict.outcome, ended.answers.outputs) == ("candidate_error", [])
    assert ended.exit_code in (-signal.SIGSYS, -signal.SIGSEGV)  # the latter where the kernel has no such way


@each_sandbox
async def test_an_ordinary_program_is_refused_nothing(sandbox: Sandbox) -> None:
    program = """
    import asyncio, fcntl, mmap, os, pathlib, shutil, sqlite3, subprocess, tempfile, threading
    import numpy
    async def told():
        return await asyncio.to_thread(lambda: 1)
    def f(x):
        found = []
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "values.npy")
            numpy.save(path, numpy.arange(4096.0))
            values = numpy.load(path, mmap_mode="r+")
            values[0] = 1.0
            values.flush()
            found.append(float(values.sum()))
            shutil.copyfile(path, path.with_suffix(".copy"))
            os.replace(path.with_suffix(".copy"), path)
            with sqlite3.connect(pathlib.Path(folder, "data.db")) as connection:
                connection.execute("create table t (a)")
                connection.execute("insert into t values (2)")
            found += connection.execute("select a from t").fetchone()
            connection.close()
        thread = threading.Thread(target=found.append, args=(3,))
        thread.start()
        thread.join()
        found.append(asyncio.run(told()))
        memory = mmap.mmap(-1, 1 << 20)
        memory.madvise(mmap.MADV_DONTNEED)
        found.append(float(numpy.linalg.det(numpy.eye(64))))
        os.sched_setaffinity(0, os.sched_getaffinity(0))
        os.nice(0)
        here, there = os.pipe()
        os.set_blocking(here, False)
        fcntl.fcntl(here, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        os.isatty(0)
        return found
    """
    assert await value_of(sandbox, program) == [float(sum(range(4096)) + 1), 2, 3, 1, 1.0]


@without_namespaces
@pytest.mark.fault("Programs as weapons", "metadata writes")
async def test_modes_owners_times_and_attributes_stay_as_they_are_even_on_files_of_its_own(sandbox: Sandbox) -> None:
    program = """
    import os
    def f(x):
        open("own", "w").close()
        found = []
        for name, attempt in {
            "mode": lambda: os.chmod("own", 0o600),
            "owner": lambda: os.chown("own", os.getuid(), os.getgid()),
            "times": lambda: os.utime("own", ns=(1, 1)),
            "attribute": lambda: os.setxattr("own", "user.left", b"1"),
            "set_id": lambda: os.close(os.open("set-id", os.O_CREAT | os.O_WRONLY, 0o6755)),
            "set_id_node": lambda: os.mknod("node", 0o106755),
            "length": lambda: os.truncate("own", 4),
        }.items():
            try:
                attempt()
                found.append(name)
            except PermissionError:
                pass
        return found
    """
    assert await value_of(sandbox, program) == []


@without_namespaces
@pytest.mark.fault("Programs as weapons", "candidates as root")
async def test_no_candidate_is_root_and_none_keeps_a_privilege_wherever_python_lies(sandbox: Sandbox) -> None:
    program = """
    import ctypes, os, struct
    import numpy, encodings.idna
    def f(x):
        told = ctypes.create_string_buffer(24)
        assert ctypes.CDLL(None).capget(struct.pack("=Ii", 0x20080522, 0), told) == 0
        return [0 in os.getresuid(), any(struct.unpack("=6I", told.raw)), 0 in os.getgroups()]
    """
    assert await value_of(sandbox, program) == [False, False, False]
