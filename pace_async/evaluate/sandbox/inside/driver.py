"""The first code in the sandbox: confine itself, load the program, call its entry for each instance.

Lines of JSON come on stdin: first the job (nonce, result (descriptor), path (import path to add), variables (of the
environment), confinement, program (its text), parts (its code in its place, where it has been compiled: the lines
above, and marshalled in hexadecimal digits), files (its other modules, text by name), process and command (the requests
for these modules, or null), entry, echoes, instances (how many)).
Then comes a line for each echo, then one for each instance, which is not sent before the output for the previous one
has been read. Standard output and error belong to the program. Answers go only to the result descriptor.
"""

import json
import linecache
import marshal
import os
import sys
import types
from typing import Any, BinaryIO, cast

from .confine import confine
from .frame import ECHO, ERROR, LOADED, MALFORMED, MEMORY, READY, RESULT, frame, write_all

START = "import sys; sys.path.insert(0, {folder!r}); from inside.driver import main; main()"
PROGRAM = "<program>"


def main() -> None:
    """The work of a driver that was started cold."""
    sys.path.pop(0)
    run()


def run(**further: object) -> None:
    """Never returns: the process ends here, whatever threads the program has left. `further` is passed to `confine`
    besides the job's confinement."""
    stdin = os.fdopen(os.dup(0), "rb")
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)  # takes the lowest number, 0
    job: dict[str, Any] = json.loads(stdin.readline())
    result, nonce = int(job["result"]), str(job["nonce"])
    os.set_inheritable(result, False)
    confine({**job["confinement"], **further})
    os.environ.update(job["variables"])
    if job["process"] is not None:
        from .process import serve  # not needed for a Python function

        serve(job, stdin, result)
    if job["command"] is not None:
        from .command import serve as evaluate

        evaluate(job, stdin, result)
    sys.path += (folder for folder in job["path"] if folder not in sys.path)
    sys.argv = ["program"]
    no_memory = frame(nonce, MEMORY, b'"MemoryError"')
    encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_as_json).encode
    for _ in range(job["echoes"]):
        write_all(result, frame(nonce, ECHO, encode(json.loads(stdin.readline())).encode()))
    write_all(result, frame(nonce, READY, b"null"))
    driver, last = os.getpid(), b""
    try:
        entry, complaint = _load(job)
        if complaint:
            last = frame(nonce, ERROR, json.dumps(complaint).encode())
        else:
            write_all(result, frame(nonce, LOADED, b"null"))
            for _ in range(job["instances"]):
                output = entry(json.loads(stdin.readline()))
                if os.getpid() != driver:
                    os._exit(1)  # a process that the program forked, and that ran on into here
                try:
                    answer = frame(nonce, RESULT, encode(output).encode())
                except (TypeError, ValueError, RecursionError) as error:
                    reason = f"{job['entry']} returned no JSON value: {_last_line(error)}"
                    last = frame(nonce, MALFORMED, json.dumps(reason).encode())
                    break
                write_all(result, answer)
    except MemoryError:
        last = no_memory
    except BaseException as error:
        last = frame(nonce, ERROR, json.dumps(_last_line(error)).encode())
    if os.getpid() != driver:
        os._exit(1)
    _finish(result, last, stdin)


def _load(job: dict[str, Any]) -> tuple[Any, str]:
    """(the entry, nothing), or (nothing, why there is none). The program's other files lie in its own directory."""
    if job["files"]:
        from pathlib import Path  # most programs do not need it, and a cold start would wait for it

        for name, text in job["files"].items():
            (Path.cwd() / name).write_text(text, encoding="utf-8")
        sys.path.insert(0, str(Path.cwd()))
    module = types.ModuleType("program")
    module.__file__ = PROGRAM
    sys.modules["program"] = module
    _tell_source(job["program"])
    if not job["parts"]:
        exec(compile(job["program"], PROGRAM, "exec", dont_inherit=True), module.__dict__)
    for above, code in job["parts"]:
        exec(shift_lines(marshal.loads(bytes.fromhex(code)), above), module.__dict__)
    entry = getattr(module, job["entry"], None)
    return (entry, "") if callable(entry) else (None, f"the program defines no function {job['entry']}")


def _tell_source(text: str) -> None:
    """Let `inspect.getsource`, and with it torch.jit and Triton, find the program's text, which lies in no file. Lines
    end as in the reader of a file: not at a form feed."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
    linecache.cache[PROGRAM] = (len(text), None, lines, PROGRAM)  # without a time, so that it is never looked for


def shift_lines(code: types.CodeType, above: int) -> types.CodeType:
    """The code with its lines moved down by `above`."""
    constants = tuple(shift_lines(each, above) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=PROGRAM, co_firstlineno=code.co_firstlineno + above, co_consts=constants)


def _as_json(value: object) -> object:
    """numpy's arrays and scalars as lists and numbers."""
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


def _finish(descriptor: int, last: bytes, stdin: BinaryIO) -> None:
    """Flush the program's own output, report what ended it early, and end. After outputs, wait until they were read."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # the program may have replaced or closed it
            continue
    write_all(descriptor, last)
    if not last:
        stdin.read()
    os._exit(0)
