"""Groups of tasks (`group` in task.yaml, `pace task list --group`). A group has no code: it only sorts the list."""

from pace_async.registry.base import Entry, Registry

TASK_GROUPS: Registry[Entry[None]] = Registry(
    "group of tasks",
    Entry("packing", "points or figures that are placed in space"),
    Entry("combinatorics", "finite sets and whole numbers"),
    Entry("analysis", "functions that make an integral or a convolution extreme"),
    Entry("systems", "placement and order of work on machines"),
    Entry("learning", "models that are trained on data"),
)
