"""Interactions of users with items, and the one of each user that is to be found.

The last interaction of each user is asked for; what comes before it is for training, of which the latest `history` are
kept. Trusted: what stands here is read by the scorer, never by a candidate.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

FILE = "big_matrix.csv"
WITHIN = ("", "data", "KuaiRec 2.0/data")  # where the file lies below the folder that is named
COLUMNS = ("user_id", "video_id", "timestamp")
USERS, ITEMS, ROWS = 7_176, 10_728, 12_500_000  # of the whole file; at least so many rows
FEWEST = 4  # interactions of a user, below which there is nothing to learn from
CORE = 5  # interactions that each user and each item has at least, where the authors' protocol is taken
GET = (
    "get KuaiRec.zip from https://doi.org/10.5281/zenodo.18164998, unpack it there or name the folder that holds "
    f"{FILE} by --set evaluation.settings.path=FOLDER, or take synthetic data by --set "
    "evaluation.settings.data=synthetic (a run needs --implementer MODEL too: the task has no catalogue)"
)


@dataclass(frozen=True, slots=True)
class Log:
    """Interactions in no order: (interactions,) users, items, both any whole numbers, and seconds since 1970."""

    user: np.ndarray
    item: np.ndarray
    time: np.ndarray


@dataclass(frozen=True, slots=True)
class Split:
    """`catalogue` items numbered from 1. Of each user `length` interactions are for training, which stand one user
    after the other in `item` and `time`, oldest first; `truth` (users,) is the item that came next."""

    catalogue: int
    length: np.ndarray
    item: np.ndarray
    time: np.ndarray
    truth: np.ndarray


def of_cores(log: Log) -> Log:
    """The interactions of users and items that have at least CORE each among those that are left: the authors' filter.
    Raises ValueError if none is left."""
    while True:
        if not len(log.user):
            raise ValueError(f"no users and items have {CORE} interactions each")
        users, items = np.bincount(log.user), np.bincount(log.item)
        kept = (users[log.user] >= CORE) & (items[log.item] >= CORE)
        if kept.all():
            return log
        log = Log(log.user[kept], log.item[kept], log.time[kept])


def split(log: Log, history: int, users: int, seed: int) -> Split:
    """Leave one out. Interactions of one user with one item in the same second count once; of more than `users` users
    that many are drawn by `seed`, and 0 keeps all. Raises ValueError for too few interactions or too many items."""
    (user, users_seen), (item, catalogue) = _numbered(log.user), _numbered(log.item)
    began = log.time.min()
    if catalogue >= 1 << 16 or users_seen >= 1 << 15 or log.time.max() - began >= 1 << 32:
        raise ValueError(
            f"{users_seen} users, {catalogue} items or the time between the first and the last are too many"
        )
    # One number for each, so that there is one thing to sort: of millions, several keys take their time.
    whole = np.sort((user << 48) + (log.time - began << 16) + item + 1)
    whole = whole[np.concatenate([[True], np.diff(whole) != 0])]
    user, item, time = whole >> 48, whole & 0xFFFF, (whole >> 16 & 0xFFFF_FFFF) + began
    begins = np.flatnonzero(np.concatenate([[True], np.diff(user) != 0]))
    ends = np.append(begins[1:], len(user))
    enough = ends - begins >= FEWEST
    begins, ends = begins[enough], ends[enough]
    if len(begins) < 2:
        raise ValueError(f"there are {len(begins)} users with at least {FEWEST} interactions")
    if users and len(begins) > users:
        drawn = np.sort(np.random.default_rng([seed, users]).choice(len(begins), users, replace=False))
        begins, ends = begins[drawn], ends[drawn]
    last = ends - 1
    length = np.minimum(last - begins, history)
    rows = np.concatenate([np.arange(end - count, end) for end, count in zip(last, length, strict=True)])
    return Split(catalogue, length, item[rows], time[rows], item[last])


def _numbered(names: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers from 0 in the order of the names, and how many there are. Raises ValueError for a name below 0."""
    if names.min() < 0 or names.max() >= 1 << 24:
        raise ValueError(f"users and items must be numbered from 0 to {(1 << 24) - 1}")
    seen = np.zeros(names.max() + 1, dtype=np.int64)
    seen[names] = 1
    return (np.cumsum(seen) - 1)[names], int(seen.sum())


def read(folder: Path) -> Log:
    """KuaiRec's big matrix. Raises FileNotFoundError or ValueError in one sentence that says where to get it."""
    file = next((folder / below / FILE for below in WITHIN if (folder / below / FILE).is_file()), None)
    if file is None:
        raise FileNotFoundError(f"There is no KuaiRec data in {folder}: {GET}")
    with file.open(encoding="utf-8") as table:
        header = table.readline().rstrip("\n").split(",")
    if lacking := [name for name in COLUMNS if name not in header]:
        raise ValueError(f"{file} has no column {' and no column '.join(lacking)}: {GET}")
    columns = [header.index(name) for name in COLUMNS]
    try:
        found = np.loadtxt(file, delimiter=",", skiprows=1, usecols=columns, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{file} cannot be read ({error}): {GET}") from None
    log = Log(*(found[:, column].astype(np.int64) for column in range(len(COLUMNS))))
    users, items = _numbered(log.user)[1], _numbered(log.item)[1]
    if (users, items) != (USERS, ITEMS) or len(found) < ROWS:
        raise ValueError(
            f"{file} has {users} users, {items} items and {len(found)} rows, not {USERS}, {ITEMS} and at least {ROWS}, "
            f"so it is another file or was cut short: {GET}"
        )
    return log
