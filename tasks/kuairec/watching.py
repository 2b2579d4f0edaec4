"""Synthetic interactions: people who watch short videos in sessions, in the manner of KuaiRec.

Who watches what follows from topics: a user likes a few, each topic has its hour of the day, a session stays with one
for a while, and within a topic few items are watched much. Some items have sequels, which are watched next. What a
history says is therefore in its order, in its times and in what it is made of. Everything follows from a seed.
"""

import numpy as np
from interactions import Log

USERS, ITEMS, TOPICS = 600, 1_200, 12
MEAN, FEWEST, MOST = 110, 24, 400  # interactions of a user
DAYS, BEGAN = 60, 1_593_561_600  # seconds since 1970, at midnight
SESSION = 9.0  # interactions of a session, on average
SEQUEL, SEQUELS = 0.15, (0.6, 0.3, 0.1)  # how often the next is a sequel of the one before, and which of its three
STRAY = 0.12  # how often a session goes on to another topic
LIKED, HOURLY = 0.2, 1.5  # how few topics a user likes (lower: fewer), how much topics keep to their hour
SKEW, TASTE = 0.5, 1.0  # of popularity within a topic, and how far users differ in it
DAY = 86_400


def watched(seed: int, users: int = 0) -> Log:
    """Interactions of `users` users, USERS for 0."""
    rng = np.random.default_rng([seed, ITEMS])
    topic = rng.permutation(np.arange(ITEMS) % TOPICS)
    popular = np.log(1.0 / (1.0 + rng.permutation(ITEMS)) ** SKEW)
    traits = rng.standard_normal((ITEMS, 4)) / 2
    members = [np.flatnonzero(topic == one) for one in range(TOPICS)]
    sequels = np.stack([rng.choice(members[one], len(SEQUELS), replace=False) for one in topic])
    hour = rng.uniform(0, 24, TOPICS)
    rows: list[tuple[int, int, int]] = []
    for user in range(users or USERS):
        likes = np.log(rng.gamma(LIKED, size=TOPICS) + 1e-6)
        appeal = popular + TASTE * traits @ rng.standard_normal(traits.shape[1])
        chance = [np.cumsum(np.exp(appeal[mine]) / np.exp(appeal[mine]).sum()) for mine in members]
        count = int(np.clip(rng.lognormal(np.log(MEAN) - 0.18, 0.6), FEWEST, MOST))
        for begins, size in _sessions(count, rng):
            time = begins
            at = np.exp(likes + HOURLY * np.cos(2 * np.pi * (time % DAY / 3600 - hour) / 24))
            leanings = np.cumsum(at / at.sum())
            now, item = -1, -1
            for _ in range(size):
                strays, follows, which, within, pause = rng.random(5)
                if item >= 0 and follows < SEQUEL:
                    item = int(sequels[item, int(np.searchsorted(np.cumsum(SEQUELS)[:-1], which))])
                else:
                    if now < 0 or strays < STRAY:
                        now = min(int(np.searchsorted(leanings, which)), TOPICS - 1)
                    mine = members[now]
                    item = int(mine[min(int(np.searchsorted(chance[now], within)), len(mine) - 1)])
                rows.append((user, item, time))
                time += 5 + int(60 * pause**2)
    user, item, time = np.array(rows).T
    return Log(user, item, time)


def _sessions(count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """(second at which it begins, interactions) of sessions with `count` interactions in all."""
    sizes: list[int] = []
    while sum(sizes) < count:
        sizes.append(min(int(rng.geometric(1 / SESSION)), count - sum(sizes)))
    awake = 7 * 3600 + rng.integers(0, 16 * 3600, len(sizes))
    begins = np.sort(BEGAN + DAY * rng.integers(0, DAYS, len(sizes)) + awake)
    return list(zip(begins.tolist(), sizes, strict=True))
