"""A tiny distribution in a folder, as `pip install` would leave it: a module, and metadata with entry points."""

from collections.abc import Mapping
from pathlib import Path

MODULE = """
from pace_async.registry.objectives import Objective


def centred(rewards_B, parameters):
    return rewards_B - rewards_B.mean()


CENTRED = Objective("any", "a toy", "toy_pack:centred", uses_alpha=True, kl_penalty=0.25)


def oldest(island, search, draw):
    return min(island.members, key=lambda member: member.candidate)


class Kept:
    def __init__(self, argument):
        self.argument = argument

    def begin(self, logged, *, replay):
        self.file = open(self.argument, "a")
        print(logged.run, file=self.file)

    def write(self, records):
        for record in records:
            print(record.candidates, file=self.file, flush=True)

    def close(self):
        self.file.close()
"""
POINTS: Mapping[str, Mapping[str, str]] = {
    "pace.objectives": {
        "centred": "toy_pack:centred",
        "with_alpha": "toy_pack:CENTRED",
        "pace": "toy_pack:centred",
        "gone": "toy_pack:nothing_of_the_kind",
        "text": "toy_pack:MODULE_NAME",
    },
    "pace.parent_rules": {"oldest": "toy_pack:oldest", "objective": "toy_pack:CENTRED"},
    "pace.watchers": {"kept": "toy_pack:Kept"},
}


def install(folder: Path) -> Path:
    """Write the distribution into a folder, which then belongs on the path of modules."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "toy_pack.py").write_text(MODULE + '\n\nMODULE_NAME = "toy_pack"\n')
    metadata = folder / "toy_pack-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-pack\nVersion: 1.0\n")
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in POINTS.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(sections))
    return folder
