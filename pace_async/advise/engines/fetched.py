"""The engine's side of `publish.fetch`: a version fetched by its digest into a folder of this machine.

Invariants: a folder with the name of a digest holds the tensors of that digest, or it is not there. One process of a
machine fetches at a time, and the others use what it fetched. Nothing but safetensors files of plain names is written,
and no more bytes than were announced. The two versions that were used last are kept.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from pace_async.advise.engines.load import BadCheckpoint
from pace_async.transfer import Offer
from pace_async.weights import checkpoint_digests, is_complete, version_digest, write_atomically

PLACE = "PACE_VERSIONS"
"""The variable that names the folder for fetched versions."""
KEPT = 2
SILENCE_S = 30.0
"""A source that sends no byte for so long is given up."""
_PLACES = ("http", "https", "s3", "file")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}\.safetensors")
_DIGEST = re.compile(r"[0-9a-f]{32}")


def fetched(offer: Offer) -> Path:
    """The folder of the version, fetched if it is not there yet. Raises BadCheckpoint, after which it is not there."""
    _refuse_unless_plain(offer)
    place = Path(os.environ.get(PLACE) or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pace")
    versions = place / "versions"
    folder = versions / offer.digest
    try:
        versions.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(versions):
            if not is_complete(folder):
                _refuse_without_room(offer, versions)
                write_atomically(folder, lambda draft: _fetch(offer, draft))
            os.utime(folder)
            _forget_older(versions)
    except OSError as error:
        raise BadCheckpoint(f"version {offer.digest} cannot be kept in {versions}: {error}") from error
    return folder


def _refuse_unless_plain(offer: Offer) -> None:
    scheme, separator, _ = offer.url.partition("://")
    if not separator or scheme not in _PLACES:
        raise BadCheckpoint(f"versions are fetched from {', '.join(_PLACES)} and not from {offer.url[:80]!r}")
    if not _DIGEST.fullmatch(offer.digest):
        raise BadCheckpoint("a version to fetch has a digest of 32 hex digits")
    if not offer.files or not all(_NAME.fullmatch(name) and size >= 0 for name, size in offer.files.items()):
        raise BadCheckpoint("a version to fetch has safetensors files, with plain names")


def _refuse_without_room(offer: Offer, versions: Path) -> None:
    size, free = sum(offer.files.values()), shutil.disk_usage(versions).free
    if size > free:
        raise BadCheckpoint(f"version {offer.digest} has {size} bytes, and {versions} has room for {free}")


def _fetch(offer: Offer, draft: Path) -> None:
    """Fetch all files, and compare the digest. Raises BadCheckpoint, OSError of the disk."""
    fsspec = cast("Any", import_module("fsspec"))
    scheme = offer.url.partition("://")[0]
    system = fsspec.filesystem(scheme, **_options(offer, scheme))
    for name, size in offer.files.items():
        try:
            source = f"{offer.url}/{offer.digest}/{name}"
            system.get_file(source, str(draft / name), callback=_at_most(fsspec, size))
        except Exception as error:  # each of fsspec's file systems has errors of its own
            reason = (str(error) or type(error).__name__)[:200]
            raise BadCheckpoint(f"version {offer.digest} was not fetched: {name}: {reason}") from error
        if (received := (draft / name).stat().st_size) != size:
            raise BadCheckpoint(f"version {offer.digest} was not fetched: {received} of {size} bytes of {name} came")
    try:
        digest = version_digest(checkpoint_digests(draft))
    except (ValueError, KeyError, TypeError) as error:
        raise BadCheckpoint(f"what was fetched as version {offer.digest} cannot be read: {error}") from error
    if digest != offer.digest:
        raise BadCheckpoint(f"what was fetched as version {offer.digest} has the digest {digest}")


def _options(offer: Offer, scheme: str) -> dict[str, Any]:
    if scheme not in ("http", "https"):
        return {"skip_instance_cache": True}
    aiohttp = cast("Any", import_module("aiohttp"))
    limits = aiohttp.ClientTimeout(total=offer.seconds, sock_connect=SILENCE_S, sock_read=SILENCE_S)
    headers = {"Authorization": f"Bearer {offer.token}"}
    return {"client_kwargs": {"timeout": limits, "headers": headers}, "skip_instance_cache": True}


def _at_most(fsspec: Any, announced: int) -> Any:
    """A callback that breaks a fetch off at more bytes than were announced."""

    def refuse_more(size: int | None, value: int, **_: object) -> None:
        if value > announced:
            raise BadCheckpoint(f"more than the announced {announced} bytes came")

    return fsspec.callbacks.Callback(hooks={"most": refuse_more})


@contextmanager
def _alone(versions: Path) -> Generator[None]:
    """No other process of this machine fetches into the folder inside the context."""
    with (versions / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget_older(versions: Path) -> None:
    """Remove all but the versions that were used last, and what killed processes left."""
    folders = [folder for folder in versions.iterdir() if _DIGEST.fullmatch(folder.name)]
    for old in sorted(folders, key=lambda folder: folder.stat().st_mtime_ns)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    for draft in versions.glob(".*.tmp"):
        shutil.rmtree(draft, ignore_errors=True)
