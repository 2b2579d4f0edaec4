"""The advisor that another run trained, as version 0 of a new run (`advisor.start_from`).

The weights of one of its versions are copied into the new run's folder before that run has a row. So a run that begins
so needs the other one never again. Its settings name that run's folder, the version, and the digest of its weights.
The optimizer begins anew, as for any version 0, or goes on with the moments that the other run kept beside that version
(`advisor.start_optimizer`).

Invariant: a version is taken only if the new run would read it as the other run did: the same model, under the same
tokenizer, with the words of the same catalogue in it.
"""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pace_async.advise.binding import bound_tokenizer, spare_entries
from pace_async.advise.text_part import has_more_than_text
from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.learn.rebuild import OPTIMIZER, checkpoints_of, given_optimizer
from pace_async.model_folder import TOKENIZERS
from pace_async.population.reading.progress import versions_made
from pace_async.population.reading.reader import open_readonly
from pace_async.registry.advisors import advisor_of
from pace_async.registry.objectives import trains
from pace_async.registry.trainers import TRAINERS
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.children.catalogue_reading import options_of
from pace_async.runtime.run_paths import RunPaths, find_run_paths, is_database
from pace_async.task import Task
from pace_async.weights import (
    COMPLETE,
    checkpoint_digests,
    contents,
    damage,
    is_complete,
    recorded_digests,
    version_digest,
    write_atomically,
)

_NAMED = re.compile(r"(?P<run>.+?)(?:@(?P<version>[1-9]\d{0,8}))?(?:#(?P<digest>[0-9a-f]{32}))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TrainedBefore:
    """A version that another run trained. `folder` holds its weights, `digest` is that of all of them. `optimizer` is
    the checkpoint whose moments are taken too, None for a fresh optimizer."""

    run: RunPaths
    version: int
    folder: Path
    digest: str
    optimizer: Path | None = None

    @property
    def name(self) -> str:
        """What the settings of the new run say. Naming it again takes the same weights or none."""
        return f"{self.run.folder.resolve()}@{self.version}#{self.digest}"

    def in_words(self) -> str:
        return f"with the weights of version {self.version} of run {self.run.name} (digest {self.digest[:12]})" + (
            " and its optimizer" if self.optimizer is not None else ""
        )

    def copy_optimizer(self, learner: Path) -> None:
        """Copy the moments into the folder of the new run's learner, if they are taken. Raises UsageError."""
        if (checkpoint := self.optimizer) is None:
            return
        to = given_optimizer(learner)
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_atomically(to, lambda target: cast("None", shutil.copy2(checkpoint / OPTIMIZER, target)))
        except OSError as error:
            raise UsageError(f"{checkpoint} could not be copied to {to} ({error.strerror}): begin again.") from None

    def copy(self, to: Path) -> None:
        """Make `to` a copy of its folder, unless an attempt to begin has left it there. Raises UsageError, also for
        anything else that is there."""
        if to.exists():
            if is_complete(to) and version_digest(checkpoint_digests(to)) == self.digest:
                return
            raise UsageError(
                f"{to} is there already, and has other weights than {self.folder}: name another --run-dir."
            )

        def write(target: Path) -> None:
            for file in self.folder.iterdir():
                if file.name != COMPLETE:
                    shutil.copy2(file, target / file.name)
            if version_digest(checkpoint_digests(target)) != self.digest:
                raise UsageError(f"{self.folder} changed while it was copied: begin again.")

        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_atomically(to, write)
        except OSError as error:
            raise UsageError(f"{self.folder} could not be copied to {to} ({error.strerror}): begin again.") from None


def trained_before(config: Config, task: Task) -> TrainedBefore | None:
    """The version that `advisor.start_from` names, None if it names none. `config` names the run's advisor. Raises
    UsageError."""
    source = config.advisor.start_from
    match = _NAMED.fullmatch(source) if source else None
    keeps_optimizer = config.advisor.start_optimizer == "kept"
    if match is None:
        if keeps_optimizer:
            raise UsageError("advisor.start_optimizer kept is for a run with --advisor-from: leave it out.")
        return None
    option = f"--advisor-from {source}"
    if "://" in match["run"] or is_database(match["run"]):
        raise UsageError(f"{option}: a database holds no weights; name the folder of the run, which has them.")
    _refuse_unless_it_takes_weights(config, option)
    run = find_run_paths(match["run"])
    with open_readonly(*run.population) as reader:
        header, recorded = reader.header(), reader.ask(versions_made)
    _refuse_other_advisor(config, Config.model_validate(header.config), run, option)
    version = _version_for(run, recorded, int(match["version"]) if match["version"] else None, option)
    folder = _folder(run, version)
    if reason := _unlike(config, task, header.task, folder):
        raise UsageError(f"{option}: version {version} {reason}.")
    if reason := damage(folder):
        raise UsageError(f"{option}: {reason}; name another version.")
    digest = version_digest(recorded_digests(folder) or checkpoint_digests(folder))
    trained_version = TrainedBefore(
        run, version, folder, digest, _optimizer(run, version, option) if keeps_optimizer else None
    )
    if match["digest"] not in (None, trained_version.digest):
        raise UsageError(
            f"{option}: version {version} has the digest {trained_version.digest} now; leave #… out to take it."
        )
    return trained_version


def _folder(run: RunPaths, version: int) -> Path:
    return run.learner / "versions" / f"{version:06d}"


def _optimizer(run: RunPaths, version: int, option: str) -> Path:
    """The checkpoint of the version, whose moments are as they were written."""
    folders = checkpoints_of(run.learner)
    folder = folders / f"{version:06d}"
    if not (is_complete(folder) and (folder / OPTIMIZER).is_file()):
        versions = sorted(int(checkpoint.name) for checkpoint in folders.glob("[0-9]*") if is_complete(checkpoint))
        alternatives = f"there is one of {', '.join(map(str, versions))}" if versions else "there is none"
        raise UsageError(
            f"{option}: no optimizer of version {version} is kept ({alternatives}): name such a version, or leave "
            "advisor.start_optimizer out."
        )
    if reason := damage(folder):
        raise UsageError(f"{option}: {reason}; name another version, or leave advisor.start_optimizer out.")
    return folder


def _refuse_unless_it_takes_weights(config: Config, option: str) -> None:
    kind = advisor_of(config.advisor.model)
    if not kind.served:
        raise UsageError(f"{option}: --advisor {config.advisor.model} {kind.why_untrained}, so it takes no weights.")
    if TRAINERS[config.learner.trainer].elsewhere:
        raise UsageError(
            f"{option}: learner.trainer {config.learner.trainer} takes no weights from here: leave it out."
        )


def _refuse_other_advisor(config: Config, before: Config, run: RunPaths, option: str) -> None:
    theirs, ours = before.advisor.model, config.advisor.model
    if not trains(before.learner.objective):
        raise UsageError(f"{option}: run {run.name} trained no advisor (--objective {before.learner.objective}).")
    if TRAINERS[before.learner.trainer].elsewhere:
        raise UsageError(f"{option}: the weights of run {run.name} are with a service and not in its folder.")
    if before.learner.lora_rank is not None:
        raise UsageError(
            f"{option}: run {run.name} trained adapters (learner.lora_rank), and a run begins with whole weights."
        )
    if theirs != ours and (
        advisor_of(theirs).packaged or advisor_of(ours).packaged or advisor_folder(theirs) != advisor_folder(ours)
    ):
        raise UsageError(
            f"{option}: run {run.name} trained --advisor {theirs}, and this run has --advisor {ours}: give the same."
        )


def _version_for(run: RunPaths, recorded: Sequence[int], asked_for: int | None, option: str) -> int:
    """The version asked for, or the newest one. Of those that the run has made, only the newest are kept."""
    if not recorded:
        raise UsageError(
            f"{option}: run {run.name} has made no version yet: its advisor is still the one it was given."
        )
    kept = [version for version in recorded if is_complete(_folder(run, version))]
    if not kept:
        raise UsageError(f"{option}: no version of run {run.name} is in {run.learner / 'versions'} any more.")
    if asked_for is None or asked_for in kept:
        return asked_for or kept[-1]
    reason = "is not kept any more" if asked_for in recorded else "was never made"
    raise UsageError(f"{option}: version {asked_for} of run {run.name} {reason}: there is {', '.join(map(str, kept))}.")


def _unlike(config: Config, task: Task, their_task: str, folder: Path) -> str:
    """Why this run could not read the version, as a clause, empty if it can."""
    own_folder = advisor_folder(config.advisor.model)
    reads = spare_entries(own_folder) is not None
    for name in TOKENIZERS:
        ours = (own_folder / name).read_bytes() if (own_folder / name).is_file() else None
        if ours is not None and reads and name == TOKENIZERS[0]:
            ours = bound_tokenizer(own_folder, options_of(config.advisor.model, task)).encode()
        if ours != ((folder / name).read_bytes() if (folder / name).is_file() else None):
            if reads:
                return f"has learned the words of another catalogue, that of task {their_task!r}"
            return f"has another tokenizer than --advisor {config.advisor.model} has now"
    if has_more_than_text(own_folder):  # its tensors have other names there
        return ""
    typed = config.advisor.serves_given_type
    shapes = {each.name: (each.shape, each.dtype if typed else "") for each in contents(own_folder)}
    theirs = {each.name: (each.shape, each.dtype if typed else "") for each in contents(folder)}
    if any(shapes.get(name, shape) != shape for name, shape in theirs.items()) or not shapes.keys() & theirs.keys():
        return f"has other tensors than --advisor {config.advisor.model} has now"
    return ""
