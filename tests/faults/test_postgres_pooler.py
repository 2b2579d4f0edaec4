"""A connection pooler between pace and the server is refused in one sentence, whatever it passes on."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pace_async.errors import UsageError
from pace_async.population.reading.reader import open_readonly
from pace_async.population.schema import schema_state
from tests.support.needed import without
from tests.support.postgres import NOBODY, PostgresServer

PORT = 5432
WORDS = r"is the address of a connection pooler, and a run's lock needs its own session"


@pytest.fixture
def short_folder() -> Generator[Path]:
    """A folder for a socket, whose path may have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="pace-") as folder:
        yield Path(folder)


@contextmanager
def relayed(postgres: PostgresServer, folder: Path, *, shift: int) -> Generator[Path]:
    """A relay to the server that adds `shift` to the number of the process that it names at the beginning."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / ".s.PGSQL.5432"))
    listener.listen()
    open_ones: list[socket.socket] = []

    def pass_on(source: socket.socket, target: socket.socket, shift: int) -> None:
        began = b""
        with suppress(OSError):  # the other side, or this test, is over
            while content := source.recv(1 << 16):
                if shift:  # the message K: length 12, the process, a key
                    began += content
                    place = began.find(b"K\0\0\0\x0c")
                    if place < 0 or len(began) < place + 13:
                        continue
                    number = int.from_bytes(began[place + 5 : place + 9]) + shift
                    content, shift = began[: place + 5] + number.to_bytes(4) + began[place + 9 :], 0
                target.sendall(content)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(postgres.folder / ".s.PGSQL.5432"))
            open_ones.extend((client, server))
            for one in ((client, server, 0), (server, client, shift)):
                threading.Thread(target=pass_on, args=one, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield folder
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
        for one in open_ones:
            one.close()


@pytest.mark.parametrize("shift", [0, 1])
def test_a_relay_is_no_pooler_unless_another_process_answers_than_was_named(
    shift: int, postgres: PostgresServer, short_folder: Path
) -> None:
    name = postgres.new().partition("?")[0].rpartition("/")[2]
    with relayed(postgres, short_folder, shift=shift):
        url = f"postgresql://pace@/{name}?host={short_folder}"
        if not shift:
            assert schema_state(url) == "current"
            return
        with pytest.raises(UsageError, match=WORDS):
            schema_state(url)
        with pytest.raises(UsageError, match=WORDS), open_readonly(url):
            pass


@contextmanager
def pgbouncer(postgres: PostgresServer, folder: Path, *settings: str) -> Generator[Path]:
    """The pooler in transaction mode on a socket in `folder`."""
    binary = shutil.which("pgbouncer")
    if binary is None:
        without("PGBOUNCER", "needs PgBouncer: apt install pgbouncer")
    (folder / "users").write_text('"pace" ""\n')
    lines = [
        "[databases]",
        f"* = host={postgres.folder} user=pace",
        "[pgbouncer]",
        "listen_addr =",
        f"listen_port = {PORT}",
        f"unix_socket_dir = {folder}",
        "auth_type = trust",
        f"auth_file = {folder / 'users'}",
        "pool_mode = transaction",
        *settings,
    ]
    (folder / "ini").write_text("\n".join(lines))
    folder.chmod(0o777)
    other: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    with subprocess.Popen([binary, str(folder / "ini")], stderr=subprocess.PIPE, text=True, **other) as pooler:
        try:
            assert pooler.stderr is not None
            for line in pooler.stderr:  # it says when it listens
                if "process up" in line:
                    break
            yield folder
        finally:
            pooler.terminate()


@pytest.mark.parametrize("settings", [(), ("ignore_startup_parameters = options",)])
def test_pgbouncer_is_refused(settings: tuple[str, ...], postgres: PostgresServer, short_folder: Path) -> None:
    name = postgres.new().partition("?")[0].rpartition("/")[2]
    with pgbouncer(postgres, short_folder, *settings) as folder, pytest.raises(UsageError, match=WORDS):
        schema_state(f"postgresql://pace@/{name}?host={folder}")
