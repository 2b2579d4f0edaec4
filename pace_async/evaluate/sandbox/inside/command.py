"""An evaluator of the user's, in the sandbox of the program that it evaluates.

The driver has confined itself before this code runs, and its child processes are confined too. It copies the task's
folder into a private one, writes the program over the copy, runs the evaluator there, and answers with the files that
the evaluator left in the folder of results. Files of the task above LARGE bytes are links to the task's own, which no
process in the sandbox can write.

The program shares its user with all of this. So the result can be trusted no more than the program itself.
"""

import contextlib
import json
import os
import stat
import sys
from typing import Any, BinaryIO

from .bundle import unpack
from .frame import ERROR, LOADED, READY, RESULT, frame, write_all
from .process import MOST_DESCRIPTORS

LARGE = 1 << 20
TASK, RESULTS = "task", "results"
NOT_STARTED = 127
PYTHONS = ("python", "python3")
OPEN = "/proc/self/fd/"


def serve(job: dict[str, Any], stdin: BinaryIO, result: int) -> None:
    """Never returns. `job` as in `driver`, with `command`: argv, environment, task (the folder to copy), program (the
    name of the program's first file, or of its folder), size (bytes of the files that are written over the copy, which
    follow the job on its pipe), removed (files that are taken out of the copy), folder (where the evaluator runs in
    it), path (folders of the copy to import from), results (names of files in the folder of results) and most (bytes of
    each)."""
    command, nonce = job["command"], str(job["nonce"])
    here = os.getcwd()  # noqa: PTH109 (pathlib costs start-up time here)
    work, results = f"{here}/{TASK}", f"{here}/{RESULTS}"
    _copy(command["task"], work)
    os.mkdir(results, 0o700)  # noqa: PTH102
    environment = {**os.environ, **command["environment"], "PACE_RESULTS": results}
    own = [f"{work}/{folder}" for folder in command["path"]]
    environment["PYTHONPATH"] = ":".join((*own, *job["path"]))
    places = {"{program}": f"{work}/{command['program']}", "{results}": results, "{task}": command["task"]}
    argv = [_with_places(word, places) for word in command["argv"]]
    os.chdir(f"{work}/{command['folder']}")
    argv[0] = _command_path(argv[0], environment["PATH"])
    descriptors = _descriptors((argv[0], *job["path"]))
    files = stdin.read(int(command["size"]))
    write_all(result, frame(nonce, READY, b"null"))
    try:
        for name in command["removed"]:
            os.unlink(f"{work}/{name}")  # noqa: PTH108 (pathlib costs start-up time here)
        unpack(files, work)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        _fail(result, nonce, f"a file of the program stands where the task has another: {error.strerror}")
    except OSError as error:
        _fail(result, nonce, f"the program takes more room than there is: {error.strerror}")
    write_all(result, frame(nonce, LOADED, b"null"))
    stdin.readline()
    code = _run(argv, environment, descriptors)
    if code != 0:
        _fail(result, nonce, f"the evaluator ended with {_ending(code)}")
    left = {name: _text_or_size(f"{results}/{name}", int(command["most"])) for name in command["results"]}
    texts = {name: text for name, text in left.items() if text is not None}
    write_all(result, frame(nonce, RESULT, json.dumps(texts, ensure_ascii=False).encode("utf-8", "replace")))
    stdin.read()
    os._exit(0)


def _copy(source: str, target: str) -> None:
    """A copy that may be written. Links in the task's folder have become files when it was made ready."""
    os.mkdir(target, 0o700)  # noqa: PTH102
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir():
                _copy(entry.path, f"{target}/{entry.name}")
            elif entry.stat().st_size > LARGE:
                os.symlink(entry.path, f"{target}/{entry.name}")  # noqa: PTH211
            else:
                _copy_file(entry, f"{target}/{entry.name}")


def _copy_file(entry: "os.DirEntry[str]", target: str) -> None:
    mode = 0o700 if entry.stat().st_mode & 0o100 else 0o600
    written = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(written, "wb") as copy, os.fdopen(os.open(entry.path, os.O_RDONLY), "rb") as source:
        copy.write(source.read())


def _with_places(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word


def _command_path(name: str, path: str) -> str:
    """The command's path. If it is not there, that is the task's mistake and not the program's: the driver never
    becomes ready."""
    places = [""] if "/" in name else [f"{folder}/" for folder in path.split(":")]
    for place in places:
        if os.access(place + name, os.X_OK) and os.path.isfile(place + name):  # noqa: PTH113
            return place + name
    if name in PYTHONS:  # below a folder that is closed to this user; the driver was given a way to it
        return sys.executable
    os.write(2, f"the evaluator's command {name} is not there in the sandbox, or no program\n".encode())
    os._exit(1)


def _descriptors(paths: "tuple[str, ...]") -> set[int]:
    """Those through which paths lead that begin in an open folder."""
    parts = [path.removeprefix(OPEN).split("/")[0] for path in paths if path.startswith(OPEN)]
    return {int(part) for part in parts}


def _run(argv: list[str], environment: dict[str, str], descriptors: set[int]) -> int:
    """The exit code of the evaluator, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            first = 3
            for descriptor in sorted(descriptors):
                os.closerange(first, descriptor)
                first = descriptor + 1
            os.closerange(first, MOST_DESCRIPTORS)
            os.execve(argv[0], argv, environment)
        except OSError as error:
            os.write(2, f"cannot start {argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(NOT_STARTED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    import signal

    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _text_or_size(path: str, most: int) -> str | int | None:
    """The text of a file, or its size if it is too long. None if there is no such file, or something else of its name:
    a folder, a link, a pipe, a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        return _read(descriptor, most) if status.st_size <= most else status.st_size
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read(descriptor: int, most: int) -> str:
    data = b""
    while len(data) < most and (chunk := os.read(descriptor, most - len(data))):
        data += chunk
    return data.decode("utf-8", "replace")


def _fail(result: int, nonce: str, reason: str) -> None:
    write_all(result, frame(nonce, ERROR, json.dumps(reason).encode()))
    os._exit(0)
