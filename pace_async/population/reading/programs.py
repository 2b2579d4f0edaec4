"""The programs that rows hold. A row has the text of a program of one file, and of one of several files its manifest,
which names the blobs of the files (`journal.stored`)."""

from collections import OrderedDict

from sqlalchemy import Connection, bindparam, select

from pace_async.errors import UsageError
from pace_async.population.journal.stored import content_of
from pace_async.population.models import BlobRow
from pace_async.population.prepared import Prepared
from pace_async.programs.fileset import from_manifest, is_manifest

REMEMBERED = 16 << 20
"""Characters of files that are held. A digest stands for one content in every database."""
BLOB = Prepared(
    select(BlobRow.content).where(BlobRow.run_id == bindparam("of_run"), BlobRow.digest == bindparam("of_digest"))
)


def whole(connection: Connection, run_id: int, program: str) -> str:
    """The program whose row has this text. Raises UsageError if the database lacks one of its files."""
    if not is_manifest(program):
        return program
    return from_manifest(program, lambda digest: _files.text(connection, run_id, digest))


def whole_or_none(connection: Connection, run_id: int, program: str | None) -> str | None:
    """The same for a row that may have no program."""
    return None if program is None else whole(connection, run_id, program)


class _Files:
    """The files read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._characters = 0

    def text(self, connection: Connection, run_id: int, digest: str) -> str:
        """The file with this digest."""
        cached = self._kept.get(digest)
        if cached is not None:
            self._kept.move_to_end(digest)
            return cached
        blob = BLOB.value(connection, {"of_run": run_id, "of_digest": digest})
        if blob is None:
            raise UsageError(f"A file of a program is not in the database (digest {digest}): restore it from a backup.")
        text = self._kept[digest] = content_of(bytes(blob)).decode()
        self._characters += len(text)
        while self._characters > REMEMBERED and len(self._kept) > 1:
            self._characters -= len(self._kept.popitem(last=False)[1])
        return text


_files = _Files()
