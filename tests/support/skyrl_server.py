"""SkyRL's server of the Tinker API in a process, on the processor."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx

TOY_VOCAB = 200
START = Path(__file__).parents[1] / "tinker" / "start_skyrl.py"


@contextmanager
def skyrl_server(model: Path, adapters: int) -> Generator[str]:
    """The address of a server of this model with room for so many adapters of rank 8. It saves them, by the names of
    its runs, in `saved` beside the model. It answers once it is up. It compiles each size of a batch anew: batches of
    questions are filled up to four."""
    folder = model.parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    backend = {"max_lora_adapters": adapters, "max_lora_rank": 8, "sample_max_num_sequences": 4}
    command = [
        *(sys.executable, str(START), "--base-model", str(model), "--backend", "jax"),
        *("--backend-config", json.dumps(backend)),
        *("--checkpoints-base", str(folder / "saved"), "--database-url", f"sqlite:///{folder}/server.db"),
        *("127.0.0.1", port),
    ]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, 15)
            server.wait(60)


async def until_up(url: str) -> None:
    """Return when a server answers. Raises TimeoutError."""
    async with httpx.AsyncClient() as http:
        with anyio.fail_after(300):
            while True:
                try:
                    await http.get(f"{url}/api/v1/healthz")
                except httpx.HTTPError:
                    await anyio.sleep(0.5)
                else:
                    return


def answered(model: Path, kind: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each request of this kind that the server of this model has answered, with its answer."""
    with closing(sqlite3.connect(f"file:{model.parent}/server.db?mode=ro", uri=True)) as database:
        asked = "select request_data, result_data from futures where request_type = ? and status = 'COMPLETED'"
        return [(json.loads(given), json.loads(said)) for given, said in database.execute(asked, (kind,))]
