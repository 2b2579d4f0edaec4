"""Reads an example of another project as a whole, to be called in a helper process (`programs.helpers`).

An example is somebody else's: its texts may be made to take for ever or all memory. So nothing of it is read by the
command itself. What comes back is JSON, and the command takes no folder from it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError
from pace_async.peers.example import Example, Wanted
from pace_async.peers.openevolve import INTERFACE as OPENEVOLVE_PATH
from pace_async.peers.openevolve import read_openevolve
from pace_async.peers.shinka import INTERFACE as SHINKA_PATH
from pace_async.peers.shinka import read_shinka
from pace_async.peers.write import Draft, drafted, refuse_links_outside

READERS: Mapping[str, tuple[Callable[[Path, Wanted], Example], Path]] = {
    "openevolve": (read_openevolve, OPENEVOLVE_PATH),
    "shinka": (read_shinka, SHINKA_PATH),
}
"""Readers of examples, and the folders that imports of their evaluators come from, by the project's name."""


def read_example(peer: str, folder: str, name: str, wanted: str) -> dict[str, Any]:
    """For another process: the draft of a task called `name`, as JSON, or why there is none. `wanted` is a Wanted as
    JSON."""
    try:
        refuse_links_outside(Path(folder))
        asked: dict[str, Any] = json.loads(wanted)
        asked["include"] = tuple(asked["include"])
        given = Wanted(**asked)
        draft = drafted(name, READERS[peer][0](Path(folder), given), given.include)
        return {"draft": json.loads(json.dumps(asdict(draft), default=_plain))}
    except UsageError as error:
        return {"refused": str(error)}
    except RecursionError:
        return {"refused": f"{folder} cannot be read: something in it is nested too deep."}
    except OSError as error:
        return {"refused": f"{folder} cannot be read: {error.strerror or error}."}


def _plain(value: object) -> object:
    return list(cast("frozenset[str]", value)) if isinstance(value, frozenset) else str(value)


def draft_of(said: Mapping[str, Any], peer: str, folder: Path) -> Draft:
    """The draft that another process has made. Raises UsageError if it could not."""
    if "refused" in said:
        raise UsageError(str(said["refused"]))
    told: dict[str, Any] = dict(said["draft"])
    fields: dict[str, Any] = dict(told["example"])
    fields.update({key: tuple(fields[key]) for key in ("requirements", "evaluate", "score", "taken", "left")})
    fields["stages"] = tuple((str(stage), float(threshold)) for stage, threshold in fields["stages"])
    fields.update(folder=folder, interface=READERS[peer][1], secret=frozenset(fields["secret"]))
    told.update({key: tuple(told[key]) for key in ("files", "skipped", "named")}, example=Example(**fields))
    return Draft(**told)
