"""What is shipped beside the code: the list of licences, and the files that an image is made of."""

import re
import tomllib
from email.message import Message
from importlib.metadata import distribution
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.documentation.licences import PAGE, SET_UP, UNKNOWN, closure, licence_of

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def listed() -> dict[str, tuple[str, str]]:
    """Version and licence by package, as the page has them."""
    rows = re.findall(r"^\| (\S+) \| (\S+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (version, licence) for name, version, licence in rows if name != "package"}


def test_each_dependency_is_in_the_list_of_licences_with_its_pinned_version() -> None:
    project = PROJECT["project"]
    named = [*project["dependencies"], *chain(*(project["optional-dependencies"][extra] for extra in SET_UP))]
    wanted = {canonicalize_name(Requirement(requirement).name) for requirement in named}
    found = listed()
    assert wanted <= set(found)
    assert not [name for name, (_, licence) in found.items() if licence == UNKNOWN]
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert {name: found[name][0].split("+")[0] for name in wanted} == {name: pins[name] for name in wanted}


def test_the_list_follows_what_dependencies_need_and_leaves_out_extras() -> None:
    found = closure()
    assert {"torch", "numpy", "mako"} <= set(found)  # mako is needed by alembic alone
    assert "pytest" not in found and "pace-async" not in found
    assert "psycopg" not in found and "psycopg" in closure(("postgres",))
    assert found["torch"].version == distribution("torch").version


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "MIT AND BSD-3-Clause"}, "MIT AND BSD-3-Clause"),
        ({"License": "MIT License\n\nPermission is hereby granted"}, "MIT License"),
        ({"License": "UNKNOWN", "Classifier": "License :: OSI Approved :: BSD License"}, "BSD License"),
        ({"License": "x" * 100}, UNKNOWN),
    ],
)
def test_a_licence_is_read_from_wherever_a_package_names_it(fields: dict[str, str], licence: str) -> None:
    metadata = Message()
    for name, value in fields.items():
        metadata[name] = value.replace("\n", "\n ")
    assert licence_of(cast("Any", SimpleNamespace(metadata=metadata))) == licence


def test_an_image_is_made_of_files_that_there_are_and_of_all_that_the_wheel_needs() -> None:
    lines = [line.split()[1:-1] for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("COPY ")]
    copied = {name for line in lines for name in line}
    assert all((ROOT / name).exists() for name in copied)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == kept
    build = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    project = PROJECT["project"]
    needed = {*build["packages"], *build["force-include"], project["readme"], *project["license-files"]}
    assert needed <= copied
