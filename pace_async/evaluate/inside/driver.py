"""The first code in the sandbox: confine, load the program, call its entry for each instance, answer once.

The job comes as one JSON value on stdin: nonce, result (descriptor), path (import path to add), confinement, program,
entry, instances. Standard output and error are the program's own; the answer goes only to the result descriptor.
"""

import json
import os
import sys
import types
from typing import Any, cast

from .confine import confine
from .frame import ERROR, MALFORMED, MEMORY, READY, RESULT, frame

START = "import sys; sys.path.insert(0, {folder!r}); from inside.driver import main; main()"
PROGRAM = "<program>"


def main() -> None:
    """Never returns: the process ends here, whatever threads the program has left."""
    job: dict[str, Any] = json.loads(_read_all(0))
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)  # takes the lowest number, 0
    result, nonce = int(job["result"]), str(job["nonce"])
    os.set_inheritable(result, False)
    confine(job["confinement"])
    sys.path.pop(0)
    sys.path += job["path"]
    sys.argv = ["program"]
    no_memory = frame(nonce, MEMORY, b'"MemoryError"')
    _write_all(result, frame(nonce, READY, b"null"))
    driver = os.getpid()
    try:
        kind, payload = _answer(job)
        answer = frame(nonce, kind, payload)
    except MemoryError:
        answer = no_memory
    except BaseException as error:
        answer = frame(nonce, ERROR, json.dumps(_last_line(error)).encode())
    if os.getpid() != driver:
        os._exit(1)  # a process that the program forked, and that ran on into here
    _finish(result, answer)


def _answer(job: dict[str, Any]) -> tuple[str, bytes]:
    module = types.ModuleType("program")
    module.__file__ = PROGRAM
    sys.modules["program"] = module
    encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_as_json).encode
    exec(compile(job["program"], PROGRAM, "exec", dont_inherit=True), module.__dict__)
    entry = getattr(module, job["entry"], None)
    if not callable(entry):
        return ERROR, json.dumps(f"the program defines no function {job['entry']}").encode()
    outputs = [entry(instance) for instance in job["instances"]]
    try:
        return RESULT, encode(outputs).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return MALFORMED, json.dumps(f"{job['entry']} returned no JSON value: {_last_line(error)}").encode()


def _as_json(value: object) -> object:
    """numpy's arrays and scalars as the lists and numbers that they hold."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return cast("Any", value).tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _last_line(error: BaseException) -> str:
    """The last line of the traceback, and where in the program it came from."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == PROGRAM:
            line = step.tb_lineno
        step = step.tb_next
    try:
        if isinstance(error, SyntaxError) and error.filename == PROGRAM:
            text, line = str(error.msg), error.lineno
        else:
            text = str(error)[:400]
    except BaseException:
        text = "(its message cannot be shown)"
    name = type(error).__name__
    return (f"{name}: {text}" if text else name) + (f" (line {line})" if line is not None else "")


def _read_all(descriptor: int) -> bytes:
    chunks: list[bytes] = []
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _finish(descriptor: int, data: bytes) -> None:
    """Answer, let the program's own output out, and end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # the program may have replaced or closed it
            continue
    _write_all(descriptor, data)
    os._exit(0)
