"""Sandbox tiers, from the strongest to none.

The order of the table is the order in which they are tried: the first that proves itself on this machine is used. The
code of a tier gives its variants on this machine, the strongest first: `evaluate.sandbox.tiers.TierFactory`.
"""

from dataclasses import dataclass

from pace_async.registry.base import Entry, Registry


@dataclass(frozen=True, slots=True)
class SandboxTier(Entry):
    """`trusts`: candidates are not isolated, so it is used unproven, and only with `--unsafe-no-sandbox`."""

    trusts: bool = False


SANDBOX_TIERS = Registry(
    "sandbox tier",
    SandboxTier(
        "bubblewrap",
        "own namespaces, only Python's files, no network",
        "pace_async.evaluate.sandbox.tiers:bubblewrap",
    ),
    SandboxTier(
        "rlimits",
        "resource limits, Landlock and a system-call filter, where bubblewrap cannot run",
        "pace_async.evaluate.sandbox.tiers:rlimits",
    ),
    SandboxTier(
        "none",
        "only a separate session, for code that you trust",
        "pace_async.evaluate.sandbox.tiers:no_sandbox",
        trusts=True,
    ),
)
