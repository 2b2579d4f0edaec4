"""What this machine has, as its own files and nvidia-smi tell it."""

from pathlib import Path

import pytest

from pace_async.plan import machine
from pace_async.plan.machine import cards_in, lies_in_memory
from pace_async.plan.places import CardMemory


def test_nvidia_smis_table_is_read_by_number_and_by_uuid_and_what_it_does_not_know_is_left_out() -> None:
    table = "0, GPU-5a00, 143771, 12\n1, GPU-6b00, 81559, 4000\n2, GPU-7c00, [N/A], [N/A]\nfailed\n"
    assert cards_in(table, ["1", "GPU-5a", "2"]) == {
        "1": CardMemory("1", 81559 * 2**20, 4000 * 2**20),
        "GPU-5a": CardMemory("GPU-5a", 143771 * 2**20, 12 * 2**20),
    }


def test_a_folder_in_memory_is_recognised_by_its_nearest_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("overlay / overlay rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/sda /tmp/runs ext4 rw 0 0\n")
    monkeypatch.setattr(machine, "MOUNTS", mounts)
    found = {name: lies_in_memory(Path(name)) for name in ("/home/a", "/tmp", "/tmp/a", "/tmp/runs/a", "/tmpfoo")}
    assert found == {"/home/a": False, "/tmp": True, "/tmp/a": True, "/tmp/runs/a": False, "/tmpfoo": False}
