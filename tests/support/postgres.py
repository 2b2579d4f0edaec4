"""A PostgreSQL server for tests: made in a temporary folder, reached by a socket there and by no network."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pace_async.population.schema import upgrade

NOBODY = 65534
"""The server refuses to run as root."""
OPTIONS = ("fsync=off", "max_connections=40", "shared_buffers=32MB", "listen_addresses=", "max_wal_size=256MB")
TEMPLATE = "pace_template"


def binaries() -> Path | None:
    """The folder of the newest `initdb` and `pg_ctl`. Debian does not put them on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


@dataclass(slots=True)
class PostgresServer:
    """One that runs. Its databases last as long as it does."""

    tools: Path
    folder: Path
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def url(self, database: str) -> str:
        return f"postgresql://pace@/{database}?host={self.folder}"

    def new(self, template: str = TEMPLATE) -> str:
        """The URL of a database that nobody has used: a population without a run."""
        name = f"pace_{os.getpid()}_{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def sql(self, statement: str, database: str = "postgres") -> str:
        """The answer to one statement, as psql prints it."""
        command = [str(self.tools / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement, self.url(database)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def start(self) -> None:
        options = " ".join(f"-c {option}" for option in (*OPTIONS, f"unix_socket_directories={self.folder}"))
        self._run("pg_ctl", "-w", "-D", "data", "-l", "log", "-o", options, "start")

    def stop(self) -> None:
        """As a power cut would: sessions are cut off."""
        self._run("pg_ctl", "-w", "-D", "data", "-m", "immediate", "stop")

    def make(self) -> None:
        self._run("initdb", "-D", "data", "-U", "pace", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()
        self.sql(f"CREATE DATABASE {TEMPLATE}")
        upgrade(self.url(TEMPLATE))

    def _run(self, tool: str, *arguments: str) -> None:
        other: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        command = [str(self.tools / tool), *arguments]
        with (self.folder / "tools").open("a") as said:  # no pipe: the server would hold it open
            code = subprocess.call(command, cwd=self.folder, stdout=said, stderr=said, **other)
        assert code == 0, (self.folder / "tools").read_text()


@contextmanager
def running(tools: Path) -> Generator[PostgresServer]:
    """A server, stopped and removed at the end, or the one in the folder that PACE_TEST_POSTGRES names, which only gets
    more databases."""
    if kept := os.environ.get("PACE_TEST_POSTGRES"):
        yield PostgresServer(tools, Path(kept))
        return
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="pace-pg-", dir=memory))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    server = PostgresServer(tools, folder)
    try:
        server.make()
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
