"""Another machine for tests: a network namespace of its own, in which a folder of this machine is empty.

It is reached at `address`, and reaches this machine at `here`. Needs root and the program `ip`.
"""

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pace_async.advise.engines.fetched import PLACE
from pace_async.advise.engines.managed import EngineHandle
from tests.support.needed import without
from tests.support.own_hosts import OWN_HOSTS

_HIDING = 'mount -t tmpfs none "$0" && exec "$@"'


def hiding(folder: Path, command: Sequence[str]) -> list[str]:
    """The command that runs this one where the folder is empty. Needs the right to mount."""
    return ["unshare", "--mount", "sh", "-c", _HIDING, str(folder), *command]


@dataclass(frozen=True, slots=True)
class OtherMachine:
    """`hidden` is the folder that is empty there, `cache` the one for versions that are fetched."""

    name: str
    here: str
    address: str
    hidden: Path
    cache: Path

    def there(self, command: Sequence[str]) -> list[str]:
        """The command that runs this one there."""
        return ["ip", "netns", "exec", self.name, *hiding(self.hidden, command)]


@contextmanager
def other_machine(hidden: Path, cache: Path) -> Generator[OtherMachine]:
    """A machine that does not see the first folder. Without the right to make one: see `needed.without`."""
    number = os.getpid() % 16384
    name, network = f"pace{number}", f"10.{128 + number // 128}.{number % 128}"
    one = OtherMachine(name, f"{network}.1", f"{network}.2", hidden, cache)
    if os.geteuid() != 0 or shutil.which("ip") is None:
        without("NETWORK_NAMESPACES", "needs root and iproute2 for a network namespace")
    if subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True).returncode:
        without("NETWORK_NAMESPACES", "needs the right to make network namespaces")
    try:
        for line in (
            f"ip link add {name}h type veth peer name {name}t netns {name}",
            f"ip addr add {one.here}/24 dev {name}h",
            f"ip link set {name}h up",
            f"ip -n {name} addr add {one.address}/24 dev {name}t",
            f"ip -n {name} link set {name}t up",
            f"ip -n {name} link set lo up",
        ):
            subprocess.run(line.split(), check=True, capture_output=True)
        OWN_HOSTS.add(one.address)
        yield one
    finally:
        OWN_HOSTS.discard(one.address)
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class EngineThere(EngineHandle):
    """The embedded engine on another machine, which `machine` names."""

    machine: OtherMachine

    @property
    def url(self) -> str:
        return f"http://{self.machine.address}:{self._port}"

    async def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        there = self.machine.there([*command, "--host", self.machine.address])
        await super()._run(there, {**environment, PLACE: str(self.machine.cache)})
