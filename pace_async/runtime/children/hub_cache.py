"""Models in the cache of the Hugging Face hub, as `hf download` leaves them there.

Invariant: nothing is downloaded and nothing is asked over the network. A user fetches a model once, and a run reads the
cache that HF_HOME and HF_HUB_CACHE name. A run's row has the id with the commit, so a resume reads the same files also
after a newer commit was fetched.
"""

import json
import re
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError

_ID = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>\w[\w./-]*))?", re.ASCII)
INDEX = "model.safetensors.index.json"
"""Names the shard of each tensor, where the weights are several files."""


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
        found = Path(
            cast("Any", huggingface_hub).snapshot_download(name, revision=revision or None, local_files_only=True)
        )
        lacks = missing_file(found)
        if not lacks:
            return found
    except (LocalEntryNotFoundError, HFValidationError):
        pass
    wanted = f"{name} --revision {revision}" if revision else name
    raise UsageError(
        f"--advisor {model} is neither a model directory nor a complete model in the hub's cache "
        f"({constants.HF_HUB_CACHE}{f', where it lacks {lacks}' if lacks else ''}): `hf download {wanted}` fetches it, "
        "if the hub has it."
    )


def missing_file(folder: Path) -> str:
    """The first file that a folder lacks to be a model: its configuration, its tokenizer, or weights, each shard that
    their index names. Empty if it has all. A link to nothing counts as missing."""
    if not (folder / "config.json").is_file():
        return "config.json"
    if not any(file.is_file() for file in folder.glob("tokenizer*")) and not (folder / "vocab.json").is_file():
        return "a tokenizer"
    index = folder / INDEX
    if not index.is_file():
        return "" if any(file.is_file() for file in folder.glob("*.safetensors")) else "weights (*.safetensors)"
    try:
        shards = sorted({str(shard) for shard in json.loads(index.read_bytes())["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"a whole {INDEX}"
    return next((shard for shard in shards if not (folder / shard).is_file()), "")


def pinned(model: str) -> str:
    """The id with the commit that the cache has for it. Raises UsageError."""
    return f"{model.partition('@')[0]}@{cached_folder(model).name}"
