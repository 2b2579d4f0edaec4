"""The warm parent: locked in like a candidate, it imports what the task's programs import, and forks on request.

It is trusted: it never loads a program, and a request carries nothing but descriptors, so nothing of one candidate is
in the memory that the next is forked from. Each fork gets namespaces, mounts and descriptors of its own, and from there
on does what a driver that was started cold does. Between the two stands process 1 of the new namespaces, which waits
for the driver; when it ends, the kernel ends everything in them.

`python -c START ASKED`, where ASKED is JSON: control (descriptor), path and imports (what to import, and from where),
sizes (of the memory file systems), kept (what of Python's files lies below those), user (uid and gid of candidates,
where this is only a user namespace's root). On the control socket it says `ready`, or why not; then each message is a
request, with the descriptors for standard input, output and error, the result pipe, the control groups, and last a
socket for that candidate alone. There process 1 answers `started`, with a descriptor of itself, and when the driver has
ended, its wait status. The driver waits for its job in its control groups, however long that takes to come.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from . import confine, driver, namespaces

START = "import sys; sys.path.insert(0, {folder!r}); from inside.warm import main; main()"
MOST_DESCRIPTORS = 16
RESULT = 3  # where a candidate finds its result pipe; its control groups follow


def main() -> None:
    """Serve until the other end of the control socket is closed."""
    asked: dict[str, Any] = json.loads(sys.argv.pop())
    sys.path.pop(0)
    sys.path += asked["path"]
    control = socket.socket(fileno=asked["control"])
    complaint = _warm_up(asked["imports"])
    control.send(complaint.encode() or b"ready")
    if complaint:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    gc.collect()
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 16, MOST_DESCRIPTORS)
        if not request:
            return
        try:
            if namespaces.fork() == 0:
                control.detach()
                _begin(descriptors, asked)
        except OSError as error:
            os.write(descriptors[-1], str(error).encode())
        for descriptor in descriptors:
            os.close(descriptor)


def _warm_up(names: Sequence[str]) -> str:
    """Import these, and say why this process must not be forked, if so."""
    for name in names:
        try:
            importlib.import_module(name)
            if "numpy" in sys.modules:
                importlib.import_module("numpy.random")  # numpy loads it when it is first used, as most programs do
        except Exception as error:
            return f"cannot import {name}: {type(error).__name__}: {error}"
    sys.stdout.flush()
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return f"importing {', '.join(names)} started a thread"
    shared = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.split()[1] == "rw-s"]
    return f"importing {', '.join(names)} mapped memory that forks would share" if shared else ""


def _begin(descriptors: Sequence[int], asked: Mapping[str, Any]) -> NoReturn:
    """Process 1 of new namespaces. Never goes back into the loop that it was forked from."""
    ending = 1 << 8  # the wait status of a process that ended with exit code 1
    channel = len(descriptors) - 1
    try:
        _place(descriptors)
        namespaces.die_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        _say_started(channel)
        namespaces.mount(asked["sizes"], asked["kept"])
        os.chdir("/tmp")
        namespaces.set_dumpable(False)  # else a driver of the same user could write into this process
        child = os.fork()
        if child == 0:
            _become_driver(channel, asked.get("user"))
        confine.drop_capabilities()
        os.closerange(0, channel)
        ended = 0
        while ended != child:
            ended, ending = os.wait()
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(BrokenPipeError):
        os.write(channel, str(ending).encode())
    os._exit(0)


def _become_driver(channel: int, user: Mapping[str, int] | None) -> NoReturn:
    try:
        os.close(channel)
        namespaces.set_dumpable(True)
        if user is not None:
            namespaces.become(**user)
        for descriptor in range(RESULT + 1, channel):  # the kernel takes its time over this, so before there is a job
            confine.join(descriptor)
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is not None:
            cast("Any", numpy_random).seed()  # as if just imported; the standard library sees to itself
        driver.run()
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _place(descriptors: Sequence[int]) -> None:
    """These become 0, 1, 2 and so on, and all others are closed."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 2 * MOST_DESCRIPTORS) for descriptor in descriptors]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number)
    os.closerange(len(high), os.sysconf("SC_OPEN_MAX"))


def _say_started(channel: int) -> None:
    myself = os.pidfd_open(os.getpid())
    with socket.socket(fileno=channel) as stream:
        socket.send_fds(stream, [b"started"], [myself])
        stream.detach()
    os.close(myself)
