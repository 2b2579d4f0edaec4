"""Models in the cache of the Hugging Face hub, as `hf download` leaves them there.

Invariant: nothing is downloaded and nothing is asked over the network. A user fetches a model once, and a run reads the
cache that HF_HOME and HF_HUB_CACHE name. A run's row has the id with the commit, so a resume reads the same files also
after a newer commit was fetched.
"""

import re
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError
from pace_async.model_folder import missing_file

_ID = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>\w[\w./-]*))?", re.ASCII)


FOLDERS = ("model", "models", "checkpoints", "weights", "data")
"""First parts of a name that are a folder of the user's and no organisation of the hub."""


def is_hub_id(model: str) -> bool:
    """Whether it reads as ORGANISATION/NAME or ORGANISATION/NAME@REVISION, and no folder has this name."""
    return _ID.fullmatch(model) is not None and not Path(model).exists()


def cached_folder(model: str) -> Path:
    """The folder of a model in the cache. Its name is the commit. Raises UsageError, also for a model whose download
    was cut off."""
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    name, _, revision = model.partition("@")
    lacks = ""
    try:
        folder = Path(
            cast("Any", huggingface_hub).snapshot_download(name, revision=revision or None, local_files_only=True)
        )
        lacks = missing_file(folder)
        if not lacks:
            return folder
    except (LocalEntryNotFoundError, HFValidationError):
        pass
    arguments = f"{name} --revision {revision}" if revision else name
    raise UsageError(
        f"--advisor {model} is neither a model directory nor a complete model in the hub's cache "
        f"({constants.HF_HUB_CACHE}{f', where it lacks {lacks}' if lacks else ''}): {_remedy(name, arguments)}."
    )


def _remedy(name: str, arguments: str) -> str:
    """What to do, as a clause. A path into a folder is not looked for on the hub."""
    first = name.partition("/")[0]
    if first in FOLDERS or Path(first).is_dir():
        return f"make the folder {name} (docs/engines.md says how); a plan needs only the model's config.json in it"
    return (
        f"`hf download {arguments}` fetches it, if the hub has it; a model that is asked over the network is api:{name}"
    )


def pinned(model: str) -> str:
    """The id with the commit that the cache has for it. Raises UsageError."""
    return f"{model.partition('@')[0]}@{cached_folder(model).name}"
