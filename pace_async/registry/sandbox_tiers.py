"""Sandbox tiers, from the strongest to none.

The order of the table is the order in which they are tried: the first that proves itself on this machine is used. The
code of a tier gives its variants on this machine, the strongest first.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.evaluate.sandbox import tiers
    from pace_async.evaluate.sandbox.tiers import TierFactory
else:
    (tiers,) = later("pace_async.evaluate.sandbox", "tiers")


@dataclass(frozen=True, slots=True)
class SandboxTier(Entry["TierFactory"]):
    """`trusts`: candidates are not isolated, so it is used unproven, and only with `--unsafe-no-sandbox`."""

    trusts: bool = False


SANDBOX_TIERS = Registry(
    "sandbox tier",
    SandboxTier(
        "bubblewrap",
        "own namespaces, only Python's files, no network",
        lambda: tiers.bubblewrap,
    ),
    SandboxTier(
        "rlimits",
        "resource limits, Landlock and a system-call filter, where bubblewrap cannot run",
        lambda: tiers.rlimits,
    ),
    SandboxTier(
        "none",
        "only a separate session, for code that you trust",
        lambda: tiers.no_sandbox,
        trusts=True,
    ),
)
