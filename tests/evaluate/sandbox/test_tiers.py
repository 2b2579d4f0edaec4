"""What bubblewrap mounts, and in which order: what lies below /tmp stays visible, what is hidden stays covered."""

import json
from pathlib import Path

import pytest

from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.tiers import Bubblewrap, Limits
from pace_async.evaluate.sandbox.verdict import judge
from tests.evaluate.sandbox.tiers import BWRAP, with_packages

LIMITS = Limits(30.0, 256, 1 << 20)


def mounts(argv: list[str]) -> list[tuple[str, str]]:
    """(kind, place) of each mount and folder, in order."""
    places = {"--tmpfs": 1, "--dir": 1, "--ro-bind": 2}
    return [(word, argv[at + places[word]]) for at, word in enumerate(argv) if word in places]


def test_the_scratch_folder_comes_before_everything_below_it_and_covers_after_what_they_cover(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = Path("/tmp/checkout/.venv/lib/site-packages")
    with_packages(monkeypatch, environment)
    order = mounts(list(Bubblewrap("bwrap").plan(LIMITS, [environment / "secret"], None).argv))
    scratch = order.index(("--tmpfs", "/tmp"))
    bound = order.index(("--ro-bind", str(environment)))
    assert all(at > scratch for at, (_, place) in enumerate(order) if place.startswith("/tmp/"))
    assert order.index(("--tmpfs", str(environment / "secret"))) > bound
    assert order.count(("--tmpfs", "/tmp")) == 1


@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")
async def test_packages_that_lie_below_tmp_can_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "only_here.py").write_text("answer = 42\n")
    with_packages(monkeypatch, folder)
    work = Job("import only_here\ndef f(x):\n    return only_here.answer\n", "f", ["0"])
    verdict = judge(await launch(Bubblewrap(BWRAP or ""), work, LIMITS, ()))
    assert verdict.outcome == "ok", verdict
    assert json.loads(verdict.outputs[0]) == 42
