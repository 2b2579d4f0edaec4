"""The learner's process: `python -m pace_async.learn.process --model DIR --out DIR --config JSON`.

Each line of standard input is a request. Each gets one answer line on standard output. Both are JSON objects with the
same `id`:

    {"id": 1, "start": [GROUP FILE, …], "after": a}   the groups that made versions a + 1, a + 2, …. The answer
                                          {"version", "weights", "replayed"} follows once the learner is at the last
                                          one. Before it come {"reached": v} for the loaded checkpoint and for each
                                          repeated step. "replayed" has the fields of `replayed.ReplayResult` if
                                          repeated steps may have given other weights than are served, else null
    {"id": 2, "train": GROUP FILE}        answer: the fields of `lineage.Outcome`
    {"id": 3, "prompt": [token id, …], "completion": [token id, …]}   answer: {"logprobs": [nats, …]}, one for each
                                          token of the completion, under the current version
    {"id": 4, "send": fields of `transfer.Transfer`}   answer: {"sent": true}, once the other end has all tensors of
                                          the current version
    {"id": 5, "share": fields of `transfer.Table`}   answer: {"shared": `SharedBuffer.to_json`}. The current version is
                                          shared until a request has "unshare", whether its reader has closed it
    {"id": 6, "ping": true}               answer: {"here": true}

While it starts or works on a request, it writes {"beat": true} at once and every `--beat-s` seconds as a heartbeat,
because importing torch may take minutes on a busy machine. If a request is refused, nothing has changed and the answer
is {"refused": why, "setting": whether a setting is the cause, "unreadable": whether a group's file is damaged or
missing}. If the disk fails or memory is used up, the last answer is {"failed": kind, "detail": text}.

The process ends when standard input ends, and after such an answer. Any other error ends it too, with a traceback on
standard error. The next process rebuilds its state.

On several ranks (`ranks`) there are as many of these processes, and each gets every request. Rank 0 answers as above.
The others take part in its work and answer {"here": true} once it is done. After a failure the rank stays until
standard input ends, so that no other ends first with another message.
"""

import argparse
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from pace_async.children import die_with_parent
from pace_async.durable import disk_fault
from pace_async.learn.memory import OUT_OF_MEMORY, is_out_of_memory, said_briefly
from pace_async.learn.ranks import ALONE, Ranks, join, meeting
from pace_async.learn.settings import TrainerConfig
from pace_async.transfer import Table, Transfer


def main() -> None:
    die_with_parent()
    replies = take_stdout()
    parser = argparse.ArgumentParser(prog="pace_async.learn.process")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", type=TrainerConfig.from_json, required=True)
    parser.add_argument("--beat-s", type=float, required=True)
    options = parser.parse_args()
    if not (options.model / "config.json").is_file():
        parser.error(f"{options.model} holds no model: it has no config.json")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # TRL refuses several GPUs in one process
    place = meeting()

    with _beating(_writer(replies), options.beat_s):
        from transformers.utils import logging

        from pace_async.learn.follow import Follower
        from pace_async.learn.lineage import Lineage

        logging.disable_progress_bar()
        ranks = join(place)
        arguments = options.model, options.out, options.config, ranks
        work = Lineage(*arguments) if ranks.first else Follower(*arguments)
    if isinstance(work, Lineage):
        serve(work, sys.stdin, replies, options.beat_s, ranks)
    else:
        follow(work, sys.stdin, replies, options.beat_s)


def take_stdout() -> TextIO:
    """Reserve standard output for the protocol. Output of libraries goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return replies


def serve(lineage: Any, requests: TextIO, replies: TextIO, beat_s: float, ranks: Ranks = ALONE) -> None:
    """Answer requests until the input ends. The other ranks follow."""
    from pace_async.learn.lineage import GroupRefused
    from pace_async.learn.share import SharedVersion

    write, shared = _writer(replies), SharedVersion()
    for line in requests:
        request = json.loads(line)

        def reply(fields: dict[str, Any], number: int = request["id"]) -> None:
            write({"id": number, **fields})

        try:
            with _beating(reply, beat_s), ranks.leading() if "ping" not in request else nullcontext():
                if "unshare" in request:
                    shared.end(closed=request["unshare"])
                try:
                    answer = _answer(lineage, request, reply, shared)
                except GroupRefused as refusal:
                    answer = {"refused": str(refusal), "setting": refusal.setting, "unreadable": refusal.unreadable}
            reply(answer)
        except OSError as error:
            fault = disk_fault(error)
            if fault.kind == "cannot_write":
                raise
            reply({"failed": fault.kind, "detail": fault.detail})
            if ranks.count > 1:
                requests.read()
            return
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            traceback.print_exc()
            reply({"failed": OUT_OF_MEMORY, "detail": said_briefly(error)})
            requests.read()
            return


def follow(follower: Any, requests: TextIO, replies: TextIO, beat_s: float) -> None:
    """Take part in what rank 0 does for each request, until the input ends."""
    write = _writer(replies)
    for line in requests:
        request = json.loads(line)

        def reply(fields: dict[str, Any], number: int = request["id"]) -> None:
            write({"id": number, **fields})

        try:
            if "ping" not in request:
                with _beating(reply, beat_s):
                    follower.follow()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            traceback.print_exc()
            reply({"failed": OUT_OF_MEMORY, "detail": said_briefly(error)})
            requests.read()
            return
        reply({"here": True})


def _writer(replies: TextIO) -> Callable[[dict[str, Any]], None]:
    """A function that writes one whole line at a time, from any thread."""
    one_line = threading.Lock()

    def write(fields: dict[str, Any]) -> None:
        with one_line:
            replies.write(json.dumps(fields) + "\n")
            replies.flush()

    return write


@contextmanager
def _beating(reply: Callable[[dict[str, Any]], None], every_s: float) -> Generator[None]:
    """Send heartbeats from a separate thread: one at once, then one every `every_s` seconds."""
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


def _answer(
    lineage: Any, request: dict[str, Any], reply: Callable[[dict[str, Any]], None], shared: Any
) -> dict[str, Any]:
    if "start" in request:
        groups = [Path(path) for path in request["start"]]

        def reached(version: int) -> None:
            reply({"reached": version})

        weights = lineage.start(groups, reached, after=request["after"], loaded=reached)
        replayed = lineage.replayed
        return {
            "version": lineage.version,
            "weights": str(weights),
            "replayed": None if replayed is None or replayed.exact else asdict(replayed),
        }
    if "completion" in request:
        return {"logprobs": lineage.trainer.logprobs(request["prompt"], request["completion"])}
    if "ping" in request:
        return {"here": True}
    if "send" in request:
        _send(lineage, Transfer(**request["send"]))
        return {"sent": True}
    if "share" in request:
        return {"shared": _share(lineage, Table(**request["share"]), shared)}
    return asdict(lineage.train(Path(request["train"])))


def _send(lineage: Any, transfer: Transfer) -> None:
    from pace_async.learn.lineage import GroupRefused
    from pace_async.learn.send import CannotSend, TransferBroken, send

    try:
        send(_tensors_of(lineage), transfer)
    except CannotSend as error:
        raise GroupRefused(f"{error}, and cannot be sent: set advisor.transport to file", setting=True) from None
    except TransferBroken as error:
        raise GroupRefused(str(error)) from error


def _share(lineage: Any, table: Table, shared: Any) -> dict[str, Any]:
    from pace_async.learn.lineage import GroupRefused
    from pace_async.learn.send import CannotSend
    from pace_async.learn.share import CannotShare

    try:
        return shared.share(_tensors_of(lineage), table).to_json()
    except CannotSend as error:
        raise GroupRefused(f"{error}, and cannot be shared: set advisor.transport to file", setting=True) from None
    except CannotShare as error:
        raise GroupRefused(str(error)) from error


def _tensors_of(lineage: Any) -> Any:
    """The tensors in memory, by the names of the files."""
    from pace_async.learn.served_type import stored_names
    from pace_async.learn.store import whole_weights

    return stored_names(lineage.trainer.policy, whole_weights(lineage.trainer, on_card=True))


if __name__ == "__main__":
    main()
