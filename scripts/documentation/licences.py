"""Lists the packages that an installed pace brings, with their licences, into docs/licences.md.

python scripts/documentation/licences.py            write the page, from the environment that runs this
python scripts/documentation/licences.py --json     print the list instead, with that of every extra that is installed
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).parents[2] / "docs" / "licences.md"
SET_UP = ("api", "learn", "parquet")
"""What `make setup` installs."""
EXTRAS = (*SET_UP, "postgres", "ray", "plot", "tensorboard", "trackio", "wandb", "smollm2", "vllm", "galapagos")
UNKNOWN = "not said"
_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(.+)")
_LONGEST = 60
_SAID = (
    "# Licences",
    "pace is under Apache-2.0. `make setup` brings the packages below, each under its own licence, as its metadata "
    "names it: those of `pip install .` and of the extras `api`, `learn` and `parquet`. Written by `python "
    "scripts/documentation/licences.py` on Linux, from an environment with a CPU build of torch. A CUDA build brings "
    "packages of NVIDIA too, under NVIDIA's own licence. `python scripts/documentation/licences.py --json` lists your "
    "environment, with the extras that are installed there.",
    "The tests check that each direct dependency is in this list and names a licence. They do not check the text of "
    "any licence.",
    "| package | version | licence |\n|---|---|---|\n",
)
HEADER = "\n\n".join(_SAID)


def closure(extras: tuple[str, ...] = SET_UP) -> dict[str, Distribution]:
    """What pace needs with these extras, directly or not, as far as it is installed, by name."""
    found: dict[str, Distribution] = {}
    _add("pace-async", frozenset(extras), found)
    found.pop("pace-async", None)
    return dict(sorted(found.items()))


def _add(name: str, extras: frozenset[str], found: dict[str, Distribution]) -> None:
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return  # for another system or Python, or of an extra that is not installed
    known = canonicalize_name(name)
    if known in found and not extras:
        return
    found[known] = package
    for wanted in _requirements(package, extras):
        if canonicalize_name(wanted.name) not in found or wanted.extras:
            _add(wanted.name, frozenset(wanted.extras), found)


def _requirements(package: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for text in package.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def licence_of(package: Distribution) -> str:
    """The licence as the metadata names it: its expression, the first line of its field, or its classifiers."""
    metadata: Any = package.metadata  # a message, whose type lacks most of its methods
    if expression := metadata.get("License-Expression"):
        return expression
    first = (metadata.get("License") or "").strip().partition("\n")[0].strip()  # some put the whole text there
    if first and len(first) <= _LONGEST and first != "UNKNOWN":
        return first
    named = [match[1] for said in metadata.get_all("Classifier") or () if (match := _CLASSIFIER.match(said))]
    return ", ".join(named) or UNKNOWN


def page(packages: Mapping[str, Distribution]) -> str:
    rows = (f"| {name} | {package.version} | {licence_of(package)} |\n" for name, package in packages.items())
    return HEADER + "".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    if parser.parse_args().json:
        listed = closure(EXTRAS)
        print(json.dumps([{"name": n, "version": p.version, "licence": licence_of(p)} for n, p in listed.items()]))
        return
    PAGE.write_text(page(closure()))


if __name__ == "__main__":
    main()
