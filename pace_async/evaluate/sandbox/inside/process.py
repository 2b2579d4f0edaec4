"""A program in any language: built or started by a command.

The driver has confined itself before this code runs, and its child processes are confined too. It writes the program's
files into a private folder and then either

    builds    runs the build command, and answers with the files that exist afterwards, as a `bundle`, or
    runs      becomes the program. Its standard input is the pipe of instances, and its standard output the result
              pipe. So no code of ours shares a process or a user with it, and its clock counts nothing else.
"""

import json
import os
from typing import Any, BinaryIO

from .bundle import pack_folder, unpack
from .frame import ECHO, ERROR, LOADED, READY, RESULT, frame, write_all

MOST_SAID = 48 << 10
"""Bytes of what a failed build printed that are passed on, the first ones: they hold the first error."""
MOST_DESCRIPTORS = 1 << 16
FOLDER = "program"
SAID = "build.log"


def serve(job: dict[str, Any], stdin: BinaryIO, result: int) -> None:
    """Never returns. `job` as in `driver`, with `process`: argv, environment, size (bytes of the program's files, which
    follow the job on its pipe), and `most` (bytes that a build may leave, null for a run)."""
    process, nonce = job["process"], str(job["nonce"])
    environment = {**os.environ, **process["environment"]}
    os.mkdir(FOLDER, 0o700)  # noqa: PTH102 (pathlib costs start-up time here)
    command = _installed(process["argv"][0], environment["PATH"])
    files = stdin.read(int(process["size"]))
    for _ in range(job["echoes"]):
        write_all(result, frame(nonce, ECHO, stdin.readline().rstrip(b"\n")))
    write_all(result, frame(nonce, READY, b"null"))
    try:
        unpack(files, FOLDER)
    except OSError as error:
        _refuse(result, nonce, f"its files take more room than there is: {error.strerror}")
    os.chdir(FOLDER)
    if not os.access(command, os.X_OK):
        _refuse(result, nonce, f"the command {command} is not there, or no program")
    if process["most"] is not None:
        write_all(result, frame(nonce, LOADED, b"null"))
        stdin.readline()
        write_all(result, _built(nonce, command, process, environment))
    else:
        write_all(result, frame(nonce, LOADED, b"null"))
        os.dup2(stdin.fileno(), 0)
        os.dup2(result, 1)
        os.closerange(3, MOST_DESCRIPTORS)
        try:
            os.execve(command, process["argv"], environment)
        except OSError as error:
            os.write(2, f"cannot start {process['argv'][0]}: {error.strerror}\n".encode())
            os._exit(127)
    stdin.read()
    os._exit(0)


def _built(nonce: str, command: str, process: dict[str, Any], environment: dict[str, str]) -> bytes:
    """The frame with the result of a build."""
    log = f"../{SAID}"
    child = os.fork()
    if child == 0:
        try:
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.closerange(3, MOST_DESCRIPTORS)
            os.execve(command, process["argv"], environment)
        finally:
            os._exit(127)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        with os.fdopen(os.open(log, os.O_RDONLY), "rb") as stream:
            output = stream.read(MOST_SAID).decode("utf-8", "replace")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return frame(nonce, ERROR, json.dumps(f"{how}\n{output}", ensure_ascii=False).encode("utf-8", "replace"))
    try:
        bundle = pack_folder(".", int(process["most"]))
    except OSError as error:
        return frame(nonce, ERROR, json.dumps(f"exit code 0\nits files cannot be read: {error.strerror}").encode())
    if bundle is None:
        return frame(nonce, ERROR, json.dumps(f"exit code 0\nit left more than {process['most'] >> 20} MiB").encode())
    return frame(nonce, RESULT, bundle)


def _installed(name: str, path: str) -> str:
    """The path of the command of this name. A name without a slash, or with one at its beginning, is an installed
    command. If it cannot be reached here, that is not the program's fault, and the driver never becomes ready."""
    places = [""] if "/" in name else [f"{folder}/" for folder in path.split(":")]
    location = next((place + name for place in places if os.access(place + name, os.X_OK)), None)
    if location is None and ("/" not in name or name.startswith("/")):
        os.write(2, f"{name} cannot be reached in the sandbox\n".encode())
        os._exit(1)
    return location or name


def _refuse(result: int, nonce: str, reason: str) -> None:
    write_all(result, frame(nonce, ERROR, json.dumps(reason).encode()))
    os._exit(0)
