"""Process 1 of a container: reaps ended processes, forwards signals, and exits with the command's exit code.

The kernel gives process 1 every orphan to reap, and drops signals that it does not handle. So the command runs as a
child of process 1, as it would anywhere else.
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
    """Return in a process that is not process 1. If this is process 1, fork: the child returns. Process 1 ends with the
    child, with its exit code or 128 + the signal that ended it."""
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
        elif (
            news.si_code <= 0 or news.si_signo == signal.SIGHUP
        ):  # the terminal itself sends the other signals to the command
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
