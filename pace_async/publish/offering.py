"""Puts versions where engines of other machines fetch them: a server of this process, or a folder that fsspec knows."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from pace_async.errors import InfrastructureFault
from pace_async.publish.base import Offerer
from pace_async.publish.version_server import KEPT, ServedVersions, files_of
from pace_async.transfer import Offer
from pace_async.weights import version_digest


@asynccontextmanager
async def offering(where: str | None) -> AsyncGenerator[Offerer]:
    """Offers at this place (`advisor.fetch_from`) for as long as it is open."""
    if where is not None and not where.startswith("http:"):
        yield CopiedVersions(where)
        return
    with contextlib.ExitStack() as servers:
        yield ServedVersions(where, servers)


class CopiedVersions:
    """An `Offerer` that copies versions to a folder, such as a bucket. Who may read it is the folder's own affair."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._kept: list[str] = []

    async def offer(self, weights: Path, digests: Mapping[str, str], engine: str, seconds: float) -> Offer:
        files, digest = files_of(weights), version_digest(digests)
        try:
            await anyio.to_thread.run_sync(self._copy, weights, files, digest)
        except Exception as error:  # each of fsspec's file systems has errors of its own
            detail = f"{type(error).__name__}: {error}"[:200]
            raise InfrastructureFault("offer_failed", f"a version cannot be copied to {self._url}: {detail}") from error
        return Offer(self._url, digest, files, "", seconds)

    def _copy(self, weights: Path, files: Mapping[str, int], digest: str) -> None:
        files_at = cast("Any", import_module("fsspec.core")).url_to_fs(self._url)
        system, root = files_at[0], str(files_at[1]).rstrip("/")
        folder = f"{root}/{digest}"
        if self._url.startswith("file:"):  # elsewhere it would make a bucket whose name is wrong
            system.makedirs(folder, exist_ok=True)
        for name, size in files.items():
            system.invalidate_cache()
            is_copied = system.exists(f"{folder}/{name}") and system.size(f"{folder}/{name}") == size
            if not is_copied:
                system.put_file(str(weights / name), f"{folder}/{name}")
        self._kept = [*(other for other in self._kept if other != digest), digest]
        while len(self._kept) > KEPT:
            with contextlib.suppress(Exception):  # somebody else may have removed it
                system.rm(f"{root}/{self._kept.pop(0)}", recursive=True)
