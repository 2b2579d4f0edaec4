"""Texts of programs that try to reach other processes and shared files. They are never imported. Each returns the names
of the attempts that were not refused."""

from pace_async.evaluate.sandbox.inside import calls

NAMED = ("cachestat", "clone", "ioprio_set", "sched_setattr")


def named(program: str) -> str:
    """The program, with the numbers that it makes calls by."""
    return f"NUMBERS = { ({name: calls.number(name) for name in NAMED}) }\n{program}"


PRELUDE = """
import array, contextlib, ctypes, errno, fcntl, mmap, os, resource, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if libc.syscall(ctypes.c_long(NUMBERS[name]), *given) < 0:
        raise OSError(ctypes.get_errno(), name)
def function(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
def done(attempts):
    found = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except (OSError, ValueError):
            continue
        found.append(name)
    return found
library = os.open(os.__file__, os.O_RDONLY)
here, there = os.pipe()
"""

EVERYWHERE = (
    PRELUDE
    + """
def mapped():
    pages = mmap.mmap(library, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    return pages, ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(pages)))
def advised(advice):
    pages, start = mapped()
    function("madvise", start, ctypes.c_size_t(mmap.PAGESIZE), advice)
def resident():
    pages, start = mapped()
    function("mincore", start, ctypes.c_size_t(1), ctypes.create_string_buffer(1))
def at_once():
    with contextlib.suppress(BlockingIOError):
        os.preadv(library, [bytearray(1)], 0, os.RWF_NOWAIT)
def asks_for_locks():
    fcntl.fcntl(library, fcntl.F_GETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
def f(x):
    owner = struct.pack("ii", 1, os.getpid())
    return done({
        "owner": lambda: fcntl.fcntl(here, fcntl.F_SETOWN, os.getpid()),
        "owner_ex": lambda: fcntl.fcntl(here, 15, owner),
        "signal": lambda: fcntl.fcntl(here, 10, 9),
        "async": lambda: fcntl.fcntl(here, fcntl.F_SETFL, fcntl.fcntl(here, fcntl.F_GETFL) | os.O_ASYNC),
        "fioasync": lambda: fcntl.ioctl(here, 0x5452, struct.pack("i", 1)),
        "fiosetown": lambda: fcntl.ioctl(socket.socketpair()[0], 0x8901, struct.pack("i", os.getpid())),
        "siocspgrp": lambda: fcntl.ioctl(socket.socketpair()[0], 0x8902, struct.pack("i", os.getpid())),
        "lock_shared": lambda: fcntl.flock(library, fcntl.LOCK_SH | fcntl.LOCK_NB),
        "lock_exclusive": lambda: fcntl.flock(library, fcntl.LOCK_EX | fcntl.LOCK_NB),
        "ask_for_locks": asks_for_locks,
        "lease": lambda: fcntl.fcntl(library, 1024, fcntl.F_RDLCK),
        "notify": lambda: fcntl.fcntl(os.open("/usr/lib", os.O_RDONLY), 1026, 2),
        "hint": lambda: fcntl.fcntl(library, 1036, struct.pack("q", 3)),
        "read_hint": lambda: fcntl.fcntl(library, 1035, struct.pack("q", 0)),
        "flags": lambda: fcntl.ioctl(library, 0x40086602, struct.pack("l", 0)),
        "pipe_size": lambda: fcntl.fcntl(here, 1031, 1 << 20),
        "inotify": lambda: function("inotify_init1", 0),
        "fanotify": lambda: function("fanotify_init", 0x200, 0),
        "mincore": resident,
        "cachestat": lambda: call("cachestat", library, struct.pack("QQ", 0, 4096), ctypes.create_string_buffer(40), 0),
        "read_if_cached": at_once,
        "drop_pages": lambda: os.posix_fadvise(library, 0, 4096, os.POSIX_FADV_DONTNEED),
        "page_out": lambda: advised(21),
        "page_cold": lambda: advised(20),
        "merge_pages": lambda: advised(12),
        "merge_all": lambda: function("prctl", 67, 1, 0, 0, 0),
        "outlive": lambda: function("prctl", 1, 0),
        "dumpable": lambda: function("prctl", 4, 1),
        "core_limit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        "sibling": lambda: call("clone", 0x8000 | 17, 0, 0, 0, 0),
    })
"""
)

OUTSIDE = (
    PRELUDE
    + """
def reached(path):
    file = os.open(path, os.O_PATH)
    return f"/proc/self/fd/{file}"
def async_signal(pid):
    fcntl.fcntl(here, fcntl.F_SETOWN, pid)
    fcntl.fcntl(here, 10, 9)
    fcntl.fcntl(here, fcntl.F_SETFL, fcntl.fcntl(here, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(there, b"x")
def aimed(act):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        act(ours)
def connected(channel, name):
    channel.connect(name)
    channel.send(b"out")
def f(given):
    pid, path, names = given["pid"], given["path"], given["names"]
    return done({
        "async_signal": lambda: async_signal(pid),
        **{f"connect {name}": lambda name=name: aimed(lambda channel: connected(channel, name)) for name in names},
        **{f"sendto {name}": lambda name=name: aimed(lambda channel: channel.sendto(b"out", name)) for name in names},
        **{f"sendmsg {name}": lambda name=name: aimed(lambda channel: channel.sendmsg(
            [b"out"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [here]))], 0, name)) for name in names},
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, pid, 5),
        "priority_of_user": lambda: os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_USER, 0)),
        "affinity": lambda: os.sched_setaffinity(pid, {0}),
        "scheduler": lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
        "param": lambda: os.sched_setparam(pid, os.sched_param(0)),
        "attr": lambda: call("sched_setattr", pid, struct.pack("IIQiIQQQ", 48, 3, 0, 5, 0, 0, 0, 0), 0),
        "ioprio": lambda: call("ioprio_set", 1, pid, 3 << 13),
        "limits": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64)),
        "kill": lambda: os.kill(pid, 9),
        "mode": lambda: os.chmod(path, 0o4777),
        "mode_by_descriptor": lambda: os.chmod(reached(path), 0o4777),
        "owner": lambda: os.chown(path, os.getuid(), os.getgid()),
        "times": lambda: os.utime(path, ns=(1, 1)),
        "times_by_descriptor": lambda: os.utime(os.open(path, os.O_PATH), ns=(1, 1)),
        "attribute": lambda: os.setxattr(path, "user.left", b"1"),
        "removed_attribute": lambda: os.removexattr(path, "user.there"),
        "length": lambda: os.truncate(path, 0),
        "emptied_for_reading": lambda: os.open(path, os.O_RDONLY | os.O_TRUNC),
        "neither_read_nor_written": lambda: os.open(path, 3),
        **{f"memory of {each}": lambda each=each: open(f"/proc/{each}/mem", "r+b") for each in (pid, 1)},
        "own_set_id": lambda: os.open("set-id", os.O_CREAT | os.O_WRONLY, 0o4755),
        "shared_segment": lambda: function("shmctl", given["segment"], 0, None),
    })
"""
)
