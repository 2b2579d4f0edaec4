"""A tier is used only after it has stopped a program that tries to escape. Without such a tier nothing is run."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.evaluate.sandbox.claims import PROBES
from pace_async.evaluate.sandbox.inside import landlock
from pace_async.evaluate.sandbox.selfcheck import Check, check_tier, describe, pick_tier
from pace_async.evaluate.sandbox.tiers import Bubblewrap, Limits, NoSandbox, Plan, Rlimits
from tests.evaluate.sandbox.tiers import BWRAP

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
needs_bwrap = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")


@pytest.mark.fault("Sandbox", "TCP and UDP")
@pytest.mark.fault("Sandbox", "abstract sockets")
@pytest.mark.fault("Sandbox", "signals its parent")
@needs_bwrap
async def test_bubblewrap_lets_nothing_through() -> None:
    check = await check_tier(Bubblewrap(BWRAP or ""))
    assert (check.proven, check.gaps, check.broken) == (True, (), "")


@needs_bwrap
async def test_the_strongest_proven_tier_is_picked_and_named() -> None:
    tier = await pick_tier(False)
    assert describe(tier) == "sandbox: bubblewrap, proven by its self-check"


async def test_the_lower_tier_holds_memory_and_the_process_group_and_says_what_it_does_not_hold() -> None:
    check = await check_tier(Rlimits())
    assert check.proven, check
    line = describe(Rlimits(gaps=("network", "files")))
    assert line == "sandbox: rlimits; a candidate can still use the network, read this machine's files"


async def test_the_probe_escapes_without_a_sandbox() -> None:
    check = await check_tier(NoSandbox())
    assert {"files", "writes", "network", "signals", "memory"} <= set(check.gaps)
    assert not check.proven


async def test_no_sandbox_is_used_only_with_its_flag() -> None:
    assert (await pick_tier(True)).name == "none"
    assert describe(NoSandbox()) == "sandbox: none; candidates run as you do"


async def test_a_bubblewrap_that_does_not_start_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (await check_tier(Bubblewrap(str(broken)))).broken.endswith("no namespaces here")
    assert (await pick_tier(False)).name == "rlimits"


@pytest.mark.fault("Sandbox", "no sandbox on the machine")
async def test_without_any_proven_tier_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pace_async.evaluate.sandbox.tiers.rlimits", lambda: [Bubblewrap("/no/such/bwrap")])
    with pytest.raises(UsageError, match=r"bubblewrap is not installed.*apt-get install bubblewrap.*--unsafe"):
        await pick_tier(False)


@dataclass(frozen=True, slots=True)
class Without(Rlimits):
    """A lower tier that forgets one of its measures."""

    measure: str = ""

    def plan(self, limits: Limits, hidden: Sequence[Path], scratch: Path | None) -> Plan:
        plan = Rlimits.plan(self, limits, hidden, scratch)
        kept = {name: value for name, value in plan.confinement.items() if name != self.measure}
        return replace(plan, confinement=kept)


FILTERED = {"network", "signals", "locks", "watches", "cache", "core", "group"}


@pytest.mark.fault("Programs as weapons", "a sandbox that stops less than it claims")
@pytest.mark.parametrize(
    ("measure", "missed"),
    [("seccomp", FILTERED), ("limits", {"memory", "core"}), ("landlock", {"files"})],
    ids=["filter", "limits", "landlock"],
)
async def test_a_tier_that_does_not_stop_what_it_claims_is_not_used(measure: str, missed: set[str]) -> None:
    check = await check_tier(Without(measure=measure))
    assert missed <= set(check.gaps), check
    assert not check.proven
    assert all(PROBES[name] in check.reason for name in missed)


@pytest.mark.fault("Programs as weapons", "candidates as root")
@pytest.mark.skipif(os.getuid() != 0, reason="a candidate can only be root where the runtime is")
async def test_a_tier_in_which_candidates_would_be_root_is_not_used() -> None:
    check = await check_tier(Without(measure="uid"))
    assert (check.proven, "keep user id 0" in check.reason) == (False, True)


def test_every_tier_claims_all_that_it_can_and_only_landlock_makes_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not Check(Bubblewrap("bwrap"), ("files",)).proven
    monkeypatch.setattr(landlock, "version", lambda: 1)
    assert Rlimits().claims == Bubblewrap("bwrap").claims
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert Check(Rlimits(), ("files",)).proven
    refused = Check(Rlimits(), ("files", "group"))
    assert (refused.proven, refused.reason) == (False, "a candidate can leave processes behind")
