"""The learner's process: `python -m pace_async.learn.process --model DIR --out DIR --config JSON`.

One JSON object a line on standard input, one on standard output for each, with the request's `id`:

    {"id": 1, "start": [GROUP FILE, …], "after": a}   the groups that made versions a + 1, a + 2, …; answered
                                          {"version", "weights"} once the learner is at the last; before it,
                                          {"reached": v} for the checkpoint loaded and for each step taken again
    {"id": 2, "train": GROUP FILE}        answered with the fields of `lineage.Outcome`
    {"id": 3, "prompt": [token id, …], "completion": [token id, …]}   answered {"logprobs": [nats, …]}, one for each
                                          token of the completion, under the present version
    {"id": 4, "send": fields of `transfer.Transfer`}   answered {"sent": true} when the other end has all tensors of
                                          the present version

    {"id": 5, "ping": true}               answered {"here": true}

While it starts and while it works on a request, a line {"beat": true} at once and every `--beat-s` seconds says that
it lives: to import torch may take minutes on a busy machine. Where
nothing was changed the answer is {"refused": why, "setting": whether a setting is to blame, "unreadable": whether
a group's file is damaged or gone}; where the disk failed it is {"failed": kind, "detail": words}, the last one.

It ends when standard input does, and when the disk fails. Any other trouble ends it too, with a traceback on standard
error: what it held is rebuilt by the next one.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from pace_async.children import die_with_parent
from pace_async.durable import disk_fault
from pace_async.learn.settings import Settings
from pace_async.transfer import Transfer


def main() -> None:
    die_with_parent()
    replies = take_stdout()
    parser = argparse.ArgumentParser(prog="pace_async.learn.process")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", type=Settings.from_json, required=True)
    parser.add_argument("--beat-s", type=float, required=True)
    options = parser.parse_args()
    if not (options.model / "config.json").is_file():
        parser.error(f"{options.model} holds no model: it has no config.json")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # TRL refuses several GPUs in one process

    with _beating(_writer(replies), options.beat_s):
        from transformers.utils import logging

        from pace_async.learn.lineage import Lineage

        logging.disable_progress_bar()
        lineage = Lineage(options.model, options.out, options.config)
    serve(lineage, sys.stdin, replies, options.beat_s)


def take_stdout() -> TextIO:
    """Standard output for the protocol alone; whatever a library prints goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return replies


def serve(lineage: Any, requests: TextIO, replies: TextIO, beat_s: float) -> None:
    """Answer requests until there are no more."""
    from pace_async.learn.lineage import Refused

    write = _writer(replies)
    for line in requests:
        request = json.loads(line)

        def reply(fields: dict[str, Any], number: int = request["id"]) -> None:
            write({"id": number, **fields})

        try:
            with _beating(reply, beat_s):
                answer = _answer(lineage, request, reply)
            reply(answer)
        except Refused as refusal:
            reply({"refused": str(refusal), "setting": refusal.setting, "unreadable": refusal.unreadable})
        except OSError as error:
            fault = disk_fault(error)
            if fault.kind == "cannot_write":
                raise
            reply({"failed": fault.kind, "detail": fault.detail})
            return


def _writer(replies: TextIO) -> Callable[[dict[str, Any]], None]:
    """What writes one whole line at a time, from whichever thread."""
    one_line = threading.Lock()

    def write(fields: dict[str, Any]) -> None:
        with one_line:
            replies.write(json.dumps(fields) + "\n")
            replies.flush()

    return write


@contextmanager
def _beating(reply: Callable[[dict[str, Any]], None], every_s: float) -> Generator[None]:
    """Say at once and again and again that this process lives, from a thread that does nothing else."""
    over = threading.Event()

    def beat() -> None:
        while True:
            reply({"beat": True})
            if over.wait(every_s):
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _answer(lineage: Any, request: dict[str, Any], reply: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    if "start" in request:
        groups = [Path(path) for path in request["start"]]

        def reached(version: int) -> None:
            reply({"reached": version})

        weights = lineage.start(groups, reached, after=request["after"], loaded=reached)
        return {"version": lineage.version, "weights": str(weights)}
    if "completion" in request:
        return {"logprobs": lineage.trainer.logprobs(request["prompt"], request["completion"])}
    if "ping" in request:
        return {"here": True}
    if "send" in request:
        _send(lineage, Transfer(**request["send"]))
        return {"sent": True}
    return asdict(lineage.train(Path(request["train"])))


def _send(lineage: Any, transfer: Transfer) -> None:
    from pace_async.learn.lineage import Refused
    from pace_async.learn.send import CannotSend, TransferBroken, send

    try:
        send(lineage.trainer.policy.state_dict(), transfer)
    except CannotSend as error:
        raise Refused(f"{error}, and cannot be sent: set advisor.transport to file", setting=True) from None
    except TransferBroken as error:
        raise Refused(str(error)) from error


if __name__ == "__main__":
    main()
