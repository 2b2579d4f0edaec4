"""vLLM as a child process of the runtime: start, watch, restart, stop.

Invariant: the weights of a newly started server have no version. The client refuses its tokens until a push labels
them, so a restarted server is never confused with the one before. `vllm_found` detects whether it runs on a CPU or a
GPU. A run does not depend on the weights that the server starts with.
"""

import contextlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
from anyio.abc import Process

from pace_async.advise.engines.managed import EngineProcess, refuse_unless_model
from pace_async.advise.engines.vllm_found import Build
from pace_async.advise.engines.vllm_plugin import BACKEND, STARTED_BY_PACE
from pace_async.children import clean_environment, kill_group, python_module
from pace_async.errors import InfrastructureFault

_LOOK_S = 0.2
_SWEEP_LOOKS = 100
_SWEEP_S = 0.05
_LONGEST_SOCKET_FOLDER = 60
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values that --max-lora-rank accepts."""

_EXTENSION = "pace_async.advise.engines.vllm_file.ReceiptExtension"
_MISSING = "ModuleNotFoundError: "
_OF_CPU = ("--enforce-eager", "--no-enable-chunked-prefill")
"""With chunked prefill vLLM rewinds a request's random generator. A CPU generator cannot, and the engine ends."""


@dataclass(frozen=True, slots=True)
class AdapterSlots:
    """At most `count` LoRA adapters, of rank at most `rank`, serve at once."""

    rank: int
    count: int

    def arguments(self) -> list[str]:
        highest = next(known for known in _RANKS if known >= self.rank)
        count = str(self.count)
        return ["--enable-lora", "--max-loras", count, "--max-cpu-loras", count, "--max-lora-rank", str(highest)]


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """Size of a server. `kv_cache_gib` None: 1 on a CPU, or on a GPU what remains of `gpu_memory`, the server's share
    of each card. `threads` is the number of threads of one tensor operation on a CPU. `adapters` None: no adapters.
    `gpus` are the cards as CUDA_VISIBLE_DEVICES names them (empty: the first). On several the model is divided, with a
    rank on each. The CPU build has as many ranks, all on the processor. `longest_call`: tokens of a
    question and its answer together, by default the model's context. `float32_head`: logits are not rounded to the type
    of the weights. `arguments` are extra arguments for vLLM."""

    requests: int = 8
    kv_cache_gib: float | None = None
    gpu_memory: float = 0.9
    threads: int = 1
    adapters: AdapterSlots | None = None
    gpus: Sequence[str] = ()
    longest_call: int | None = None
    float32_head: bool = False
    arguments: Sequence[str] = ()


def memory_arguments(chosen: VllmSettings, *, cpu: bool) -> list[str]:
    """The server's memory. On a card its share is always given: without it vLLM asks for 0.92 of the card to be free,
    even if the size of its cache is given."""
    cache_gib = 1.0 if chosen.kv_cache_gib is None and cpu else chosen.kv_cache_gib
    share = [] if cpu else ["--gpu-memory-utilization", str(chosen.gpu_memory)]
    return [*share, *(["--kv-cache-memory-bytes", str(int(cache_gib * 2**30))] if cache_gib is not None else [])]


def _of_linear_attention(*, cpu: bool) -> Sequence[str]:
    """On a card vLLM would compile a kernel of FlashInfer at its first use, which needs nvcc: Triton needs no compiler
    of CUDA. On the processor it refuses to keep prefixes where prompts are taken in one piece."""
    return ("--no-enable-prefix-caching",) if cpu else ("--gdn-prefill-backend", "triton")


def _has_linear_attention(model: Path) -> bool:
    config: dict[str, Any] = json.loads((model / "config.json").read_text("utf-8"))
    text: dict[str, Any] = config.get("text_config") or config
    return "linear_num_key_heads" in text


class VllmHandle(EngineProcess):
    """A vLLM server."""

    def __init__(self, build: Build, settings: VllmSettings, *, log: Path, start_s: float) -> None:
        super().__init__(log=log, start_s=start_s)
        self._build = build
        self._settings = settings
        self._sockets: Path | None = None

    async def restart(self, model: Path) -> None:
        """Stop the server and start it with the weights in `model`, without a version. Raises InfrastructureFault."""
        await self.stop()
        await self.start(model)

    async def start(self, model: Path) -> None:
        """Raises UsageError for a directory without a model, InfrastructureFault if the server does not start."""
        refuse_unless_model(model)
        self._port = self._port or _free_port()
        self._sockets = _socket_folder(self._log.parent)
        command = python_module("pace_async.advise.engines.vllm_server", *self._arguments(model))
        await self._run(command, self._environment(self._sockets))

    async def stop(self) -> None:
        """Stop the server and all its processes. Does nothing if none runs."""
        if self._process is not None:
            with anyio.CancelScope(shield=True):
                self.kill()
                await _until_gone(self._process)
        await super().stop()
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)

    def kill(self) -> None:
        """Kill the server. `wait_died` returns. Its other processes end after it."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def _arguments(self, model: Path) -> list[str]:
        chosen, cpu = self._settings, self._build.device == "cpu"
        whole = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
        return [
            *("--model", str(model), "--host", "127.0.0.1", "--port", str(self._port)),
            *("--dtype", _type_of(model), "--max-num-seqs", str(chosen.requests)),
            *memory_arguments(chosen, cpu=cpu),
            *(_of_linear_attention(cpu=cpu) if _has_linear_attention(model) else ()),
            *("--weight-transfer-config", json.dumps({"backend": BACKEND}), "--worker-extension-cls", _EXTENSION),
            "--enable-scale-out",  # /inference/v1/generate: token ids in and out, with version spans
            *("--logprobs-mode", "processed_logprobs"),
            *(
                "--override-generation-config",
                json.dumps(whole),
            ),  # a model's own configuration would change the distribution
            *("--disable-log-stats", "--disable-uvicorn-access-log", *(_OF_CPU if cpu else ())),
            *(chosen.adapters.arguments() if chosen.adapters is not None else ()),
            *(("--max-model-len", str(chosen.longest_call)) if chosen.longest_call is not None else ()),
            *(("--tensor-parallel-size", str(len(chosen.gpus))) if len(chosen.gpus) > 1 else ()),
            *(("--hf-overrides", json.dumps({"head_dtype": "float32"})) if chosen.float32_head else ()),
            *chosen.arguments,
        ]

    def _environment(self, sockets: Path) -> dict[str, str]:
        """VLLM_SERVER_DEV_MODE enables the paths that pause and load weights. The server listens on 127.0.0.1 only."""
        environment = clean_environment(
            VLLM_SERVER_DEV_MODE="1",
            VLLM_NO_USAGE_STATS="1",
            VLLM_PLUGINS="pace",
            VLLM_HTTP_TIMEOUT_KEEP_ALIVE="600",  # the default of 5 s closes connections that httpx is about to reuse
            VLLM_RPC_BASE_PATH=str(sockets),
        )
        environment[STARTED_BY_PACE] = "1"
        if self._settings.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(self._settings.gpus)
        if self._settings.adapters is not None:
            environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
        if self._build.device == "cpu":
            environment |= {
                "VLLM_TARGET_DEVICE": "cpu",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # evaluations share the cores
                "OMP_NUM_THREADS": str(self._settings.threads),
                # A lone worker is a part of the engine's process: it starts sooner, and no token waits for a message.
                # vLLM avoids that only to bind threads to cores by the worker's environment.
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            }
            if len(self._settings.gpus) > 1:
                environment["TORCH_COMPILE_DISABLE"] = "1"  # a divided embedding would be compiled at the first request
        return environment

    async def _serving(self, process: Process) -> int:
        async with httpx.AsyncClient(base_url=self.url, timeout=5.0, trust_env=False) as http:
            while process.returncode is None:
                with contextlib.suppress(httpx.HTTPError):
                    if (await http.get("/health")).status_code == 200:
                        return self._port
                with anyio.move_on_after(_LOOK_S):  # vLLM sends no notification when it is up
                    await process.wait()
        raise InfrastructureFault("engine_start", f"vLLM ended before it served: {last_error(self._log)}")


@asynccontextmanager
async def managed_vllm(
    build: Build, model: Path, settings: VllmSettings, *, log: Path, start_s: float = 600.0
) -> AsyncGenerator[VllmHandle]:
    """A vLLM server of `model`, without a version. Its output goes to `log`. Raises UsageError,
    InfrastructureFault("engine_start")."""
    handle = VllmHandle(build, settings, log=log, start_s=start_s)
    try:
        await handle.start(model)
        yield handle
    finally:
        await handle.stop()


async def _until_gone(process: Process) -> None:
    """Give the server's process group a few seconds to end by itself. Its last process removes the shared memory,
    hundreds of megabytes, which a killed group would leave behind."""
    with anyio.move_on_after(_SWEEP_LOOKS * _SWEEP_S):
        await process.wait()
    for _ in range(_SWEEP_LOOKS):
        if not _group_lives(process.pid):
            return
        await anyio.sleep(_SWEEP_S)
    kill_group(process.pid)


def _group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _type_of(model: Path) -> str:
    """The checkpoint's own type. By default vLLM would serve float32 in a coarser type."""
    config: dict[str, Any] = json.loads((model / "config.json").read_text("utf-8"))
    inner: dict[str, Any] = config.get("text_config") or {}
    types = (config.get(key) or inner.get(key) for key in ("dtype", "torch_dtype"))
    return next((str(name) for name in types if name), "auto")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _socket_folder(beside: Path) -> Path:
    """An empty folder for vLLM's sockets: in the run's folder if that path is short enough for a socket's name."""
    folder = beside.absolute() / "vllm-sockets"
    if len(str(folder)) > _LONGEST_SOCKET_FOLDER:
        return Path(tempfile.mkdtemp(prefix="pace-vllm-"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def last_error(log: Path) -> str:
    """The last line of a server's log that names an error, or a module that is missing, whatever that led to, and where
    the log is."""
    try:
        lines = log.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    # argparse writes the second form
    errors = [line.strip() for line in reversed(lines) if "Error" in line or ": error: " in line]
    missing = [line[line.index(_MISSING) :] for line in errors if _MISSING in line]
    message = [*missing, *errors, "it left no message"][0]
    return f"{message[:300]} (see {log})"
