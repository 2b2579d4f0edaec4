"""The group file: one group in one file with its own digest.

The runtime passes a group file to the learner and keeps it, so that weights can be rebuilt from the record. It is a
safetensors file. Its metadata contain the small values as JSON. Its arrays contain the tokens of all calls,
concatenated in the order of leases. The digest is sha256 over the content, not over the file's bytes, so equal groups
have equal digests on every machine. The file is written whole or not at all.
"""

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pace_async.durable import disk_fault, write_whole
from pace_async.replay.group import Group, TrainedCall, TrainedRollout

FORMAT = 2

_SUFFIX = ".safetensors"
_ARRAYS = ("prompt_lengths", "completion_lengths", "prompt_ids", "completion_ids", "logprobs", "versions")


def group_digest(group: Group) -> str:
    """64 hex digits over the content, equal to the result of `write_group`."""
    return _digest(*_flatten(group))


def group_path(folder: Path, number: int) -> Path:
    """Path of group `number` in a folder of group files."""
    return folder / f"{number:06d}{_SUFFIX}"


def write_group(path: Path, group: Group) -> str:
    """Write `group` to `path` whole or not at all, through to the disk. Replaces an existing file. Returns the digest.
    Raises InfrastructureFault if the disk fails."""
    header, arrays = _flatten(group)
    digest = _digest(header, arrays)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise disk_fault(error, path) from error
    write_whole(path, save(arrays, metadata={"digest": digest, "header": header}))
    return digest


def read_digested(path: Path) -> tuple[Group, str]:
    """The group in the file `path`, and its digest. Raises ValueError if the file is damaged or is not a group file,
    OSError if it cannot be opened."""
    with path.open("rb"):  # its error names the file and the reason, which safetensors' error does not
        pass
    try:
        opened = cast("Any", safe_open(path, framework="numpy"))
        with opened:
            metadata = opened.metadata()
            header, digest = str(metadata["header"]), str(metadata["digest"])
            arrays: dict[str, npt.NDArray[Any]] = {name: opened.get_tensor(name) for name in _ARRAYS}
    except (SafetensorError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged or is not a group file: {error}") from None
    if _digest(header, arrays) != digest:
        raise ValueError(f"{path} is damaged: its content does not match its digest")
    try:
        return _unflatten(header, arrays), digest
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} is of another format: {error}") from None


def forget_before(path: Path) -> None:
    """Remove the group files beside `path` with lower numbers, and temporary files of killed writers."""
    for file in path.parent.iterdir():
        older = file.suffix == _SUFFIX and file.stem.isdigit() and int(file.stem) < int(path.stem)
        if older or (file.name.startswith(".") and file.name.endswith(".tmp")):
            file.unlink(missing_ok=True)


def _flatten(group: Group) -> tuple[str, dict[str, npt.NDArray[Any]]]:
    calls = [call for rollout in group.rollouts for call in rollout.calls]
    header: dict[str, Any] = {
        "format": FORMAT,
        "number": group.number,
        "update": group.update,
        "objective": group.objective,
        "alpha": group.alpha,
        "max_staleness": group.max_staleness,
        "rollouts": [
            {
                "lease": rollout.lease,
                "advantage": rollout.advantage,
                "reward": rollout.reward,
                "calls": len(rollout.calls),
            }
            for rollout in group.rollouts
        ],
    }
    if group.keeps:
        header["keeps"] = list(group.keeps)
    if group.rate != 1.0:
        header["rate"] = group.rate
    if group.restores is not None:
        header["restores"] = group.restores
    arrays: dict[str, npt.NDArray[Any]] = {
        "prompt_lengths": np.array([len(call.prompt_ids) for call in calls], "<i4"),
        "completion_lengths": np.array([len(call.completion_ids) for call in calls], "<i4"),
        "prompt_ids": np.array([token for call in calls for token in call.prompt_ids], "<i4"),
        "completion_ids": np.array([token for call in calls for token in call.completion_ids], "<i4"),
        "logprobs": np.array([value for call in calls for value in call.logprobs], "<f8"),
        "versions": np.array([version for call in calls for version in call.versions], "<i4"),
    }
    return json.dumps(header, sort_keys=True), arrays


def _unflatten(text: str, arrays: dict[str, npt.NDArray[Any]]) -> Group:
    header = json.loads(text)
    if header["format"] != FORMAT:
        raise ValueError(f"group file format {header['format']} is not {FORMAT}")
    prompts = iter(_split(arrays["prompt_ids"], arrays["prompt_lengths"]))
    answers = iter(_split(arrays["completion_ids"], arrays["completion_lengths"]))
    logprobs = iter(_split(arrays["logprobs"], arrays["completion_lengths"]))
    versions = iter(_split(arrays["versions"], arrays["completion_lengths"]))
    rollouts = tuple(
        TrainedRollout(
            entry["lease"],
            entry["advantage"],
            entry["reward"],
            tuple(
                TrainedCall(next(prompts), next(answers), next(logprobs), next(versions)) for _ in range(entry["calls"])
            ),
        )
        for entry in header["rollouts"]
    )
    return Group(
        header["number"],
        header["update"],
        header["objective"],
        header["alpha"],
        header["max_staleness"],
        rollouts,
        restores=header.get("restores"),
        rate=header.get("rate", 1.0),
        keeps=tuple(header.get("keeps", ())),
    )


def _split(flat: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> list[tuple[Any, ...]]:
    values: list[Any] = flat.tolist()
    ends: list[int] = np.cumsum(lengths).tolist()
    return [tuple(values[start:end]) for start, end in pairwise([0, *ends])]


def _digest(header: str, arrays: dict[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in _ARRAYS:
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
