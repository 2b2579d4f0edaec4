"""Reads an example of another project as a whole, to be called in a helper process (`programs.helpers`).

An example is somebody else's: its texts may be made to take for ever or all memory. So nothing of it is read by the
command itself. What comes back is JSON, and the command takes no folder from it.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from pace_async.errors import UsageError
from pace_async.peers.example import ImportOptions
from pace_async.peers.importers import IMPORTERS, looks_like_another
from pace_async.peers.write import Draft, drafted, refuse_links_outside

_DRAFTS = TypeAdapter(Draft)
_WANTED = TypeAdapter(ImportOptions)


def read_example(peer: str, folder: str, name: str, options: str) -> dict[str, Any]:
    """For another process: the draft of a task called `name`, as JSON, or why there is none. `options` is an
    ImportOptions as JSON."""
    try:
        refuse_links_outside(Path(folder))
        return {
            "draft": _DRAFTS.dump_python(
                _drafted(peer, Path(folder), name, _WANTED.validate_json(options)), mode="json"
            )
        }
    except UsageError as error:
        return {"refused": str(error)}
    except RecursionError:
        return {"refused": f"{folder} cannot be read: something in it is nested too deep."}
    except OSError as error:
        return {"refused": f"{folder} cannot be read: {error.strerror or error}."}


def _drafted(peer: str, folder: Path, name: str, options: ImportOptions) -> Draft:
    try:
        return drafted(name, IMPORTERS[peer].load()().read(folder, options), options.include)
    except UsageError:
        if not options.evaluator and (other := looks_like_another(folder, peer)):
            raise UsageError(other) from None
        raise


def draft_of(reply: Mapping[str, Any], folder: Path) -> Draft:
    """The draft that another process has made. Raises UsageError if it could not."""
    if "refused" in reply:
        raise UsageError(str(reply["refused"]))
    draft = _DRAFTS.validate_json(json.dumps(reply["draft"]))
    return replace(draft, example=replace(draft.example, folder=folder))


def wanted_json(options: ImportOptions) -> str:
    """For `read_example`."""
    return _WANTED.dump_json(options).decode()
