"""What the pages name exists: links, files in backticks, the version."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import pace_async
from scripts.documentation.draw_architecture import PICTURES, layers

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
EXAMPLES = {
    "pace_async/objectives/rank.py",
    "pace_async/search/rank_weighted.py",
    "tests/tasks/test_short_tour.py",
}
"""Files that a reader of docs/contributing makes."""
FOLDERS = ("pace_async", "tests", "scripts", "research", "configs", "migrations", "tasks", "docs")


def anchor(heading: str) -> str:
    """What a heading is called in a link."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading_that_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, heading = target.partition("#")
        file = (ROOT / page).parent / name if name else ROOT / page
        assert file.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in map(anchor, headings), target


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_every_file_of_the_project_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in re.findall(r"`((?:" + "|".join(FOLDERS) + r")/[\w./-]+)`", text):
        assert name in EXAMPLES or (ROOT / name).exists(), name


def test_the_version_is_the_same_wherever_it_stands() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    newest = re.search(r"^## (\d+\.\d+\.\d+) ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest
    assert {project["project"]["version"], newest[1]} == {pace_async.__version__}


def test_the_hooks_run_every_command_of_make_check_and_no_other() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    check = makefile.partition("\ncheck:")[2].partition("\n\n")[0]
    commands = {line.partition("$(BIN)/")[2].removesuffix(" .") for line in check.splitlines()[1:]}
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    hooks = {hook["entry"].partition(".venv/bin/")[2].removesuffix(" .") for hook in repository["hooks"]}
    assert hooks == commands


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_architecture_is_what_its_script_draws(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PICTURES[name]()


def test_every_room_stands_in_the_contributors_guide() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for room in (room for layer in layers() for room in layer):
        assert f"| `{room}` |" in guide or f"`{room}.py`" in guide, room
