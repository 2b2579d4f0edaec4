"""The warm parent: confined like a candidate, it imports the modules of the task's programs, and forks on request.

It is trusted. It never loads a program, and a request contains only descriptors. So the memory from which the next
candidate is forked holds no data of an earlier one. Each fork is process 1 of its own namespaces, with its own mounts
and descriptors. From there on it works like a driver that was started cold. When it ends, the kernel ends everything in
its namespaces.

`python -c START ASKED`, where ASKED is JSON: control (descriptor), path and imports (what to import, and from where),
sizes (of the memory file systems), kept (those of Python's files that lie below them), user (uid and gid of candidates,
if this is only a user namespace's root). On the control socket it sends `ready`, or the reason why not. Then each
message is a request, with the descriptors for standard input, output and error, the result pipe, the control groups,
and last a socket for that candidate alone. There this process sends `started`, with a descriptor of the driver, and
when the driver has ended, its wait status and its processor seconds. No driver keeps that socket. The driver waits for
its job in its control groups, without a deadline.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from . import calls, confine, driver, namespaces, seccomp
from .libc import look_up

START = "import sys; sys.path.insert(0, {folder!r}); from inside.warm import main; main()"
MOST_DESCRIPTORS = 16
RESULT = 3  # where a candidate finds its result pipe; its control groups follow
_WORDS = 624  # of a Mersenne Twister's state


def main() -> None:
    """Serve until the other end of the control socket is closed."""
    settings: dict[str, Any] = json.loads(sys.argv.pop())
    sys.path.pop(0)
    sys.path += settings["path"]
    control = socket.socket(fileno=settings["control"])
    complaint = _warm_up(settings["imports"])
    control.send(complaint.encode() or b"ready")
    if complaint:
        return
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    while os.open(os.devnull, os.O_RDONLY) < MOST_DESCRIPTORS:
        pass  # what is received lies above the numbers under which a driver has it
    # Kept, since all forks need it.
    seccomp.filter_program(calls.MACHINE, own_namespaces=True, pid=0, one_thread=False)
    look_up("capset", "prctl", "setns", "unshare")
    gc.collect()
    gc.freeze()
    living: dict[int, _Forked] = {}
    events = select.poll()
    events.register(control, select.POLLIN)
    while True:
        for ready, _ in events.poll():
            if ready in living:
                events.unregister(ready)
                os.close(ready)
                living.pop(ready).tell()
                continue
            request, descriptors, _, _ = socket.recv_fds(control, 16, MOST_DESCRIPTORS)
            if not request:
                return
            *driver_descriptors, last = descriptors
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=last)
            try:
                ended, forked = _fork(driver_descriptors, channel, settings, own)
            except OSError as error:
                with channel:
                    _say(channel, str(error).encode())
            else:
                living[ended] = forked
                events.register(ended, select.POLLIN)
            for descriptor in driver_descriptors:
                os.close(descriptor)


def _warm_up(names: Sequence[str]) -> str:
    """Import these modules. Returns why this process must not be forked, if so."""
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


@dataclass(slots=True)
class _Forked:
    """A running driver. `channel` is this end of the socket for that candidate alone."""

    pid: int
    channel: socket.socket

    def tell(self) -> None:
        """Report that it has ended, and how."""
        used = time.clock_gettime(~self.pid << 3 | 2)  # of the process, not of those that it had started
        _, status = os.waitpid(self.pid, 0)
        with self.channel:
            _say(self.channel, b"%d %f" % (status, used))


def _fork(
    descriptors: Sequence[int], channel: socket.socket, settings: Mapping[str, Any], own: int
) -> tuple[int, _Forked]:
    """A driver with these descriptors: what becomes readable when it ends, and the driver. Raises OSError."""
    pid = namespaces.fork(own)
    if pid == 0:
        _become_driver(descriptors, settings)
    ended = os.pidfd_open(pid)
    _say(channel, b"started", ended)
    return ended, _Forked(pid, channel)


def _say(channel: socket.socket, text: bytes, *descriptors: int) -> None:
    with contextlib.suppress(OSError):  # the runtime has ended
        if descriptors:
            socket.send_fds(channel, [text], descriptors)
        else:
            channel.send(text)


def _become_driver(descriptors: Sequence[int], settings: Mapping[str, Any]) -> NoReturn:
    """Process 1 of new namespaces. Never goes back into the loop that it was forked from."""
    try:
        _place(descriptors)
        namespaces.die_with_parent()
        os.setsid()
        namespaces.leave()
        namespaces.mount(settings["sizes"], settings["kept"])
        os.chdir("/tmp")
        user = settings.get("user")
        if user is not None:
            namespaces.become(**user)
        for descriptor in range(RESULT + 1, len(descriptors)):  # slow in the kernel, so before there is a job
            confine.join(descriptor)
        _draw_afresh()
        driver.run(die_with=0)  # no longer set once the user is another; the parent is outside, where ids are 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)  # also if standard error is closed


def _place(descriptors: Sequence[int]) -> None:
    """These become 0, 1, 2 and so on, and all others are closed."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(len(descriptors), os.sysconf("SC_OPEN_MAX"))


def _draw_afresh() -> None:
    """Set numpy's random state as a new import would. The standard library does it by itself. numpy's own `seed()`
    needs three times the time and pages."""
    numpy = cast("Any", sys.modules.get("numpy"))
    if numpy is not None and "numpy.random" in sys.modules:
        words = numpy.frombuffer(os.urandom(4 * _WORDS), numpy.uint32)
        numpy.random.set_state(("MT19937", words, _WORDS))
