"""The figures about the layout of the code count what they say."""

from pathlib import Path

from scripts.documentation.house_figures import figures, importers, modules_of, parameters, rooms, semicolons

FIRST = '''"""Does one thing; then another. A `;` in code does not count."""

from pace_async import second


class Twin:
    def method(self, a, /, b, *, c):
        """Short."""
        return second.value
'''
SECOND = '''"""The other file."""

value = "mechanism"


class Twin:
    pass
'''


def package(folder: Path) -> Path:
    (folder / "pace_async").mkdir()
    (folder / "pace_async" / "__init__.py").touch()
    (folder / "pace_async" / "first.py").write_text(FIRST)
    (folder / "pace_async" / "second.py").write_text(SECOND)
    return folder


def test_each_figure_of_a_small_package_is_what_a_person_counts(tmp_path: Path) -> None:
    modules = modules_of(package(tmp_path))
    assert [module.name for module in modules] == ["pace_async.first", "pace_async.second"]
    assert importers(modules) == {"pace_async.first": set(), "pace_async.second": {"pace_async.first"}}
    assert semicolons(modules) == (1, 4)
    (method,) = modules[0].functions
    assert parameters(method) == 3
    counted = figures(tmp_path, ["cli/a.py", "first.py", "cli/a.py"])
    assert counted["files on the way of one candidate"] == "2"
    assert counted["steps between files, returns among them"] == "3, 1"
    assert counted["files with one importer"] == "1"
    assert counted["class names that several classes have"] == "1 (2 classes)"
    assert counted["files in which `mechanism` stands"] == "1"


def test_rooms_are_the_folders_and_a_stay_in_one_counts_once() -> None:
    assert rooms(["a/x.py", "a/y.py", "b/z.py", "top.py", "a/x.py"]) == ["a", "b", "top", "a"]
