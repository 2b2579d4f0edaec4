"""The attacks that a sandbox tier may claim to stop: their names in the self-check, each with a phrase for display."""

from collections.abc import Mapping

PROBES: Mapping[str, str] = {
    "environment": "read the environment of other processes",
    "files": "read this machine's files",
    "writes": "write outside its own directory",
    "cards": "use this machine's GPUs",
    "processes": "write into the memory of other processes",
    "network": "use the network",
    "signals": "signal other processes",
    "priorities": "change the priority and the limits of other processes",
    "metadata": "change modes, owners, times and attributes of files",
    "locks": "lock files that others read",
    "watches": "use up the user's file watches",
    "cache": "see and change which files are kept in memory",
    "core": "have its memory dumped",
    "memory": "exceed its memory limit",
    "user": "keep user id 0",
    "group": "leave processes behind",
}
"""What a candidate can still do if the attack of this name was not stopped."""
EVERYTHING = tuple(PROBES)
BY_LANDLOCK = ("environment", "files", "writes", "cards", "processes")
"""What only Landlock stops where a candidate has no namespaces of its own."""
WITHOUT_LANDLOCK = tuple(name for name in PROBES if name not in BY_LANDLOCK)
