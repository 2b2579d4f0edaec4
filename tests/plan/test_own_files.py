"""The files of a run that goes on, which stand on the disk already."""

from dataclasses import replace
from pathlib import Path

from pace_async.plan.places import Capacity
from pace_async.runtime.start.planning import with_own_files


def test_versions_and_rows_of_a_run_that_goes_on_count_as_free(tmp_path: Path) -> None:
    version = tmp_path / "learner" / "versions" / "000001"
    version.mkdir(parents=True)
    (version / "model.safetensors").write_bytes(b"x" * 900)
    (tmp_path / "population.db").write_bytes(b"x" * 90)
    (tmp_path / "population.db-wal").write_bytes(b"x" * 10)
    capacity = Capacity({}, host=10.0, disk=50.0)
    assert with_own_files(capacity, tmp_path) == replace(capacity, disk=1050.0)
    in_memory = replace(capacity, disk_in_memory=True)
    assert with_own_files(in_memory, tmp_path) == replace(in_memory, host=1010.0, disk=1050.0)
