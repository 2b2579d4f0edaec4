"""What `pace doctor` prints about the nodes of a real Ray cluster."""

import platform
import re
import shutil
import sys
from pathlib import Path

import anyio
import pytest

from pace_async.evaluate.on_ray.look import REMEDY
from pace_async.evaluate.on_ray.wire import machine_here, pace_here
from pace_async.evaluate.sandbox.selfcheck import describe, pick_tier
from pace_async.gpus import find_cards, in_words
from tests.support.command_line import Shell
from tests.support.ray_held import DEADLINE_S
from tests.support.ray_nodes import NEEDS_RAY, RayNodes

pytestmark = [NEEDS_RAY, pytest.mark.long, pytest.mark.timeout(300)]
PACKAGE = Path(sys.modules["pace_async"].__file__ or "").parent


def printed(shell: Shell, cluster: RayNodes) -> tuple[int, dict[str, str]]:
    """The exit code of the doctor, and its lines about nodes by what follows `node` in each, single-spaced."""
    asked = {"evaluation.ray_address": cluster.address, "evaluation.ray_timeout_s": DEADLINE_S}
    sets = [part for name, value in asked.items() for part in ("--set", f"{name}={value}")]
    said = shell.pace("doctor", "--evaluators", "ray", *sets)
    words = [line.split() for line in said.out.splitlines() if line.startswith("node ")]
    return said.code, {name: " ".join(rest) for _, name, *rest in words}


def name_of(node: str) -> str:
    return f"{platform.node()}-{node[:6]}"


def test_the_doctor_prints_the_cards_of_a_node_that_hides_them_from_actors_that_reserve_none(
    cluster: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line of a node without a card says as well whether a variable hides cards."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    tier = anyio.run(pick_tier, False)
    hides = cluster.add(2, more={"num_gpus": 1}, RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="1")
    try:
        _, lines = printed(Shell(tmp_path, monkeypatch, capsys), cluster)
    finally:
        cluster.kill(hides)
    assert lines[name_of(hides)].endswith(f", {in_words(find_cards())} {tier.remedy or '-'}")


@pytest.mark.nightly
def test_the_doctor_prints_what_each_fit_node_can_do_and_why_another_is_refused(
    cluster: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All nodes are of this machine. One has the code of another checkout."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    folder, fit = tmp_path / "folder", list(cluster.nodes)
    folder.mkdir()
    tier = anyio.run(pick_tier, False)
    shutil.copytree(PACKAGE, tmp_path / "pace_async", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "pace_async" / "errors.py").open("a") as changed:
        changed.write("# another checkout\n")
    other = cluster.add(2, PYTHONPATH=str(tmp_path))
    try:
        code, lines = printed(Shell(folder, monkeypatch, capsys), cluster)
    finally:
        cluster.kill(other)
    refusal = lines.pop(name_of(other))
    its = re.fullmatch(rf"NO it has pace-async (.+), and this machine {re.escape(pace_here())} {REMEDY}", refusal)
    assert its is not None and its[1] != pace_here()
    found = f"yes {describe(tier)}; {machine_here()}, {in_words(find_cards())} {tier.remedy or '-'}"
    assert {lines[name_of(node)] for node in fit} == {" ".join(found.split())}
    assert code == 1
