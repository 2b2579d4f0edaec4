"""As process 1 of a container: collect what has ended, hand signals on, and end as the command does.

The kernel gives process 1 every orphan to collect, and no signal that it does not wait for. So the command runs as a
child of it, as it would anywhere else.
"""

import os
import signal
from typing import NoReturn

HANDED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def leave_process_one() -> None:
    """Return in a process that is not process 1. Process 1, where this is it, does not return: it ends when that
    process has, with its exit code, or 128 + the signal that ended it."""
    if os.getpid() != 1:
        return
    heard = {*HANDED_ON, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    command = os.fork()
    if command:
        _serve(command, heard)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)


def _serve(command: int, heard: set[signal.Signals]) -> NoReturn:
    while True:
        news = signal.sigwaitinfo(heard)
        if news.si_signo == signal.SIGCHLD:
            _collect(command)
        elif news.si_code <= 0 or news.si_signo == signal.SIGHUP:  # a terminal sends the others to the command itself
            os.kill(command, news.si_signo)


def _collect(command: int) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        if pid == 0:
            return
