"""A headless browser, where the machine has one. PACE_BROWSER names another."""

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.command_line import PACE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

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


RESOLVED = "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""A page cannot reach another machine. One name of another leads here, as that of an attacker may."""
LONG_MS = 60_000
"""How long a test waits for what it expects in a page."""


@contextmanager
def opened() -> Generator["Browser"]:
    """A browser without a window. While it is open, no event loop can be started in the same thread."""
    from playwright.sync_api import sync_playwright

    path = browser_path()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu", RESOLVED])
        yield found
        found.close()


@contextmanager
def window(browser: "Browser", address: str, width: int = 1280, height: int = 720) -> Generator["Page"]:
    """A window with cookies of its own that has opened the printed address. At the end it has asked nothing of another
    server, no script failed, none but ours ran, and no dialog was opened."""
    context = browser.new_context(viewport={"width": width, "height": height})
    asked: list[str] = []
    wrong: list[str] = []

    def dialog(found: "Dialog") -> None:
        wrong.append(f"dialog: {found.message}")
        found.dismiss()

    context.on("request", lambda request: asked.append(request.url))
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    context.on("dialog", dialog)
    page = context.new_page()
    page.set_default_timeout(LONG_MS)
    page.goto(address)
    yield page
    assert "owned" not in (page.title(), page.evaluate("window.owned")) and wrong == []
    origin = urlsplit(address).netloc
    assert [url for url in asked if urlsplit(url).netloc != origin and not url.startswith("data:")] == []
    context.close()


def until(page: "Page", expression: str) -> None:
    """Wait until it is true in the page. Playwright's own waiting evaluates text there, which our pages forbid."""
    ends = time.monotonic() + LONG_MS / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < ends, f"never true: {expression}"
        page.wait_for_timeout(50)


@contextmanager
def served(run: Path, *arguments: str) -> Generator[str]:
    """`pace web` of a run, or of the runs in a folder: the address that it prints."""
    with serving(run, *arguments) as (address, _):
        yield address


@contextmanager
def serving(run: Path, *arguments: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """The same, with the server's process. A server that a test killed counts as ended."""
    command = [PACE, "web", str(run), *arguments]
    environment = {**os.environ, "PACE_WEB_TOKEN": "secret", "PACE_WEB_WRITING_TOKEN": "writing"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+(/run/[\w.-]+|/)\?token=secret", address), address
            yield address, server
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(120) in (0, 130, -signal.SIGKILL)


def port_of_its_own() -> int:
    """A port that is free now, and that nobody is likely to take while its server is away: it is above those that `pace
    web` tries by itself, below those that a system hands out, and another one in each process."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


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
