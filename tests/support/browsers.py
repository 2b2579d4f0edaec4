"""A headless browser, where the machine has one. PACE_BROWSER names another."""

import os
import re
import shutil
import signal
import struct
import subprocess
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.command_line import PACE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser() -> str:
    """The browser's command. Skips the test if there is none."""
    found = os.environ.get("PACE_BROWSER") or next((name for name in NAMES if shutil.which(name)), None)
    if found is None or shutil.which(found) is None:
        pytest.skip("no headless browser on this machine: apt install chromium, or name one in PACE_BROWSER")
    return found


def browser_path() -> str:
    """The file of the browser's command."""
    return shutil.which(browser()) or browser()


@contextmanager
def served(run: Path) -> Generator[str]:
    """`pace web` of a run, or of the runs in a folder: the address that it prints."""
    environment = {**os.environ, "PACE_WEB_TOKEN": "secret"}
    server = subprocess.Popen([PACE, "web", str(run)], stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+(/run/run|/)\?token=secret", address), address
        yield address
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(30) in (0, 130)
        server.stdout.close()


def look(page: Path, folder: Path, *flags: str) -> subprocess.CompletedProcess[bytes]:
    """Open a page in a fresh profile without a network."""
    fixed = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--proxy-server=127.0.0.1:9")
    profile = f"--user-data-dir={folder / 'profile'}"
    return subprocess.run(
        [browser(), *fixed, profile, *flags, page.absolute().as_uri()], capture_output=True, timeout=60, check=True
    )


def shades(png: Path) -> tuple[int, int, int]:
    """(width, height, distinct bytes of the filtered picture): a blank picture has a handful."""
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    return width, height, len(set(zlib.decompress(packed)))
