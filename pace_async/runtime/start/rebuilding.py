"""Whether the files of a run's folder still rebuild the advisor that its rows tell of.

The population holds no weights and no group files. An older backup of it that is put back may tell of a version whose
checkpoint and groups the folder has given up since.
"""

import anyio.to_thread

from pace_async.errors import UsageError
from pace_async.learn.rebuild import lost_group
from pace_async.population.reading.progress import groups_of_versions
from pace_async.population.store import Store
from pace_async.registry.objectives import trains
from pace_async.replay.groupfile import group_path
from pace_async.runtime.run_paths import RunPaths


async def lacks_for_rebuild(store: Store, objective: str, paths: RunPaths) -> str | None:
    """What the folder lacks to rebuild the last version of the chosen run, in one sentence. None if the version can be
    rebuilt, or the objective trains nothing. Reads a checkpoint's record, and the group files after the newest
    checkpoint."""
    if not trains(objective):
        return None
    run_id = store.run_id
    groups = await store.read(lambda connection: groups_of_versions(connection, run_id))
    made_by = [(group_path(paths.groups, number), digest) for number, digest in groups]
    lost = await anyio.to_thread.run_sync(lost_group, paths.learner, made_by)
    if lost is None:
        return None
    version, file = lost
    return (
        f"the rows end with version {len(groups)} of the advisor, and {paths.folder} cannot rebuild it without the "
        f"group file groups/{file.name} or the checkpoint learner/checkpoints/{version:06d} that it made"
    )


async def refuse_unless_rebuilt(store: Store, objective: str, paths: RunPaths) -> None:
    """Raises UsageError, with what to do, if the last version of the chosen run cannot be rebuilt."""
    if (lacks := await lacks_for_rebuild(store, objective, paths)) is not None:
        raise UsageError(
            f"Nothing was changed, because {lacks}: put learner and groups back from a copy of the folder that is as "
            "old as the rows, or put newer rows back, or begin a new run."
        )
