"""The embedded engine: a child process that serves one model with transformers.

    python -m pace_async.advise.engines.embedded --model DIR --port 0 --version 0

It listens on 127.0.0.1 only, unless --host names another address. When it serves, it prints one line
{"ready": true, "port": P} on standard output. If it cannot serve, it prints {"ready": false, "error": "…"} and exits
with 1. It exits at once when its standard input closes or its parent dies, because it holds nothing that must be saved.
With --standalone it runs until it is stopped, and its weights have no version until a run pushes one. Weights are fp32,
loaded by the same code as a pushed version.
"""

import argparse
import json
import os
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from pace_async.children import die_with_parent
from pace_async.gc_freeze import start_up_frozen
from pace_async.gpus import hide_card_kernels


def main() -> None:
    arguments = _arguments()
    if not arguments.standalone:
        die_with_parent()
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        listener = _listener(arguments.host, arguments.port)
        serve = _prepare(arguments, listener)
    except Exception as error:
        traceback.print_exc()
        _say({"ready": False, "error": f"{type(error).__name__}: {error}"})
        sys.exit(1)
    serve()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pace_async.advise.engines.embedded")
    parser.add_argument("--model", type=Path, required=True, help="model directory")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; whoever reaches it may load weights")
    parser.add_argument("--port", type=int, default=0, help="port there; 0 takes a free one")
    parser.add_argument("--version", help="label of the weights in the model directory [0; none with --standalone]")
    parser.add_argument("--standalone", action="store_true", help="keep running when the parent process ends")
    parser.add_argument("--max-rows", type=int, default=32, help="answers generated at once")
    parser.add_argument("--threads", type=int, default=1, help="threads of one tensor operation")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    return parser.parse_args()


def _prepare(arguments: argparse.Namespace, listener: socket.socket) -> Any:
    """Load the model and build the server. Raises if the model directory cannot be served."""
    import torch
    import transformers
    import uvicorn

    from pace_async.advise.engines.batcher import Batcher
    from pace_async.advise.engines.server import build_app

    torch.set_num_threads(arguments.threads)
    device = arguments.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(arguments.model, device)
    batcher = Batcher(
        model,
        end_ids=end_token_ids(arguments.model, model),
        max_rows=arguments.max_rows,
        threads=arguments.threads,
        version=arguments.version or ("none" if arguments.standalone else "0"),
    )
    tokenizer = cast("Any", transformers.AutoTokenizer).from_pretrained(arguments.model)
    text = model.config.get_text_config()
    app = build_app(
        batcher,
        tokenizer,
        name=arguments.model.name,
        vocabulary=text.vocab_size,
        max_model_len=text.max_position_embeddings,
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            timeout_keep_alive=600,  # the default of 5 s closes connections that httpx is about to reuse
        )
    )

    def serve() -> None:
        threading.Thread(target=_decode, args=(batcher,), daemon=True).start()
        _say({"ready": True, "port": listener.getsockname()[1]})
        with start_up_frozen():
            server.run(sockets=[listener])

    return serve


def load_model(folder: Path, device: str) -> Any:
    """The causal LM in `folder`, in fp32. Proves that every tensor is loaded, and that the files match their recorded
    digests if there are any, because no push proves the weights that an engine starts with. Raises OSError or
    ValueError."""
    import torch
    import transformers

    from pace_async.advise.engines.load import BadCheckpoint, load_checkpoint
    from pace_async.weights import damage

    if device == "cpu":
        hide_card_kernels()
    if (wrong := damage(folder)) is not None:
        raise BadCheckpoint(wrong)
    config = cast("Any", transformers.AutoConfig).from_pretrained(folder)
    auto = cast("Any", transformers.AutoModelForCausalLM)
    model = auto.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    model.requires_grad_(False).eval()
    load_checkpoint(model, folder)
    return model.to(device)


def why_unknown(model: Path, _arguments: Sequence[str] = ()) -> str | None:
    """Why this engine does not serve the model in this folder, as a clause. None if it does, or if that is not known.
    It keeps keys and values, and no state of another kind."""
    try:
        config: dict[str, Any] = json.loads((model / "config.json").read_text("utf-8"))
        text = config.get("text_config") or config
        linear = "linear_attention" in (text.get("layer_types") or ()) or "full_attention_interval" in text
    except (OSError, ValueError, AttributeError, TypeError):
        return None
    return "it has layers of linear attention, which the embedded engine does not serve" if linear else None


def end_token_ids(folder: Path, model: Any) -> frozenset[int]:
    """Tokens that end an answer: from generation_config.json if it exists, else from the model."""
    ids: int | list[int] | None = model.config.get_text_config().eos_token_id
    file = folder / "generation_config.json"
    if file.is_file():
        ids = json.loads(file.read_text()).get("eos_token_id", ids)
    return frozenset(ids if isinstance(ids, list) else () if ids is None else (ids,))


def _listener(host: str, port: int) -> socket.socket:
    # asyncio turns Nagle's algorithm off only if the protocol is named. With it, each answer takes 40 ms longer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(128)
    return listener


def _decode(batcher: Any) -> NoReturn:
    """Run the decode loop. If it fails, the process exits and the runtime restarts the engine."""
    try:
        batcher.run()
    finally:
        traceback.print_exc()
        os._exit(70)


def _end_with_stdin() -> NoReturn:
    sys.stdin.buffer.read()
    os._exit(0)


def _say(line: dict[str, object]) -> None:
    """Print the one line of standard output. Later output goes to the log."""
    print(json.dumps(line), flush=True)
    os.dup2(2, 1)


if __name__ == "__main__":
    main()
