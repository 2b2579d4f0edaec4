"""Figures about the layout of the code, for one checkout or several side by side, as a table in Markdown.

    git worktree add /tmp/before TAG
    python scripts/documentation/house_figures.py /tmp/before .
    python scripts/documentation/house_figures.py . --way

Most figures are read from the syntax trees of `pace_async`. The way of a candidate is traced: a real run of
circle_packing with one thread and without learning, from the moment its second lease opens to the moment its third
does. The figure counts the files of `pace_async` whose functions are called in the runtime's process by the search
thread and the tasks it starts. A step is a call from one file into another, and a return is a step to a file seen
before. `--way` prints the files in the order of their first call.
A checkout that has a `.venv` is traced in it, any other in this one. A typer command is an exception: its parameters
are the command's flags, so they are not counted, and neither are the lines that declare them.
"""

import argparse
import ast
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

LONG = 60
MANY = 6
WORDS = ("mechanism", "memoised")
TRACER = Path(__file__).with_name("trace_candidate.py")
RUN = ("run", "circle_packing", "--async", "--threads", "1", "--candidates", "4", "--objective", "none")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the package: its dotted name, its text and its syntax tree."""

    name: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


def modules_of(checkout: Path) -> list[Module]:
    """Every file of the package that holds code, by path."""
    found: list[Module] = []
    for path in sorted((checkout / "pace_async").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.strip():
            name = ".".join(path.relative_to(checkout).with_suffix("").parts)
            found.append(Module(name.removesuffix(".__init__"), text, ast.parse(text)))
    return found


def importers(modules: Sequence[Module]) -> dict[str, set[str]]:
    """For each module, the modules of the package that import it."""
    names = {module.name for module in modules}
    found: dict[str, set[str]] = {name: set() for name in names}
    for module in modules:
        for node in ast.walk(module.tree):
            imported: list[str] = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names.intersection(imported) - {module.name}:
                found[name].add(module.name)
    return found


def is_command(function: Function) -> bool:
    """Whether typer calls it: the default of a parameter is a flag or an argument of the command line."""
    defaults = [*function.args.defaults, *(one for one in function.args.kw_defaults if one is not None)]
    return any(ast.unparse(one).startswith(("typer.Option(", "typer.Argument(")) for one in defaults)


def length(function: Function) -> int:
    """Lines, of a command those of its body."""
    begin = function.body[0].lineno if is_command(function) else function.lineno
    return (function.end_lineno or function.lineno) - begin + 1


def parameters(function: Function) -> int:
    """How many parameters a caller may give: `self` and `cls` are not counted, nor are a command's flags."""
    if is_command(function):
        return 0
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def shared_names(modules: Sequence[Module]) -> dict[str, int]:
    """Names that more than one class has, and how many classes."""
    counted = Counter(
        node.name for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    )
    return {name: count for name, count in counted.items() if count > 1}


def semicolons(modules: Sequence[Module]) -> tuple[int, int]:
    """Sentences of docstrings that have a semicolon outside of code, and all sentences of docstrings."""
    having = total = 0
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | Function) and (text := ast.get_docstring(node)):
                sentences = [
                    one for one in re.split(r"(?<=[.?!])\s+|\n\n", re.sub(r"`[^`]*`", "code", text)) if one.strip()
                ]
                total += len(sentences)
                having += sum(";" in sentence for sentence in sentences)
    return having, total


def spread(values: Sequence[int]) -> str:
    """Median, 95th percentile and the largest."""
    high = sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]
    return f"{statistics.median(values):.0f}, {high}, {max(values)}"


def trace(checkout: Path) -> list[str]:
    """The files of the package that one candidate's way enters, a step each, in order."""
    own = checkout / ".venv" / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "steps.json"
        command = [str(own if own.exists() else sys.executable), str(TRACER), str(checkout), str(out), *RUN]
        done = subprocess.run(
            [*command, "--run-dir", f"{folder}/run", "--display", "none"],
            env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode or not out.exists():
            raise SystemExit(f"The traced run in {checkout} failed: {done.stderr.strip()[-2000:]}")
        return json.loads(out.read_text())


def rooms(steps: Sequence[str]) -> list[str]:
    """The rooms of these steps, in order, without repeats in a row."""
    found: list[str] = []
    for step in steps:
        room = step.split("/")[0] if "/" in step else "top"
        if not found or found[-1] != room:
            found.append(room)
    return found


def figures(checkout: Path, steps: Sequence[str]) -> dict[str, str]:
    """Each figure by its name, in the order of the table."""
    modules = modules_of(checkout)
    functions = [function for module in modules for function in module.functions]
    lengths = [length(function) for function in functions]
    lines = [module.lines for module in modules]
    once = [name for name, who in importers(modules).items() if len(who) == 1]
    short = {module.name for module in modules if module.lines <= 40}
    shared = shared_names(modules)
    having, total = semicolons(modules)
    visited = rooms(steps)
    return {
        "files on the way of one candidate": str(len(set(steps))),
        "steps between files, returns among them": f"{len(steps)}, {len(steps) - len(set(steps))}",
        "steps between rooms, returns among them": f"{len(visited)}, {len(visited) - len(set(visited))}",
        "files": str(len(modules)),
        "lines": f"{sum(lines):,}",
        "files with one importer": str(len(once)),
        "of these, 40 lines or fewer": str(len(short.intersection(once))),
        "lines of a file: median, 95th percentile, most": spread(lines),
        "lines of a function: median, 95th percentile, most": spread(lengths),
        f"functions of more than {LONG} lines": str(sum(lines > LONG for lines in lengths)),
        f"functions of more than {MANY} parameters": str(sum(parameters(one) > MANY for one in functions)),
        "class names that several classes have": f"{len(shared)} ({sum(shared.values())} classes)",
        **{f"files in which `{word}` stands": str(sum(word in module.text for module in modules)) for word in WORDS},
        "sentences of docstrings with a semicolon": f"{having} of {total:,}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", nargs="+", type=Path, help="folders that hold pace_async")
    parser.add_argument("--names", help="column titles, separated by commas [default: the folders]")
    parser.add_argument("--way", action="store_true", help="print the files on the way of one candidate instead")
    parser.add_argument("--details", action="store_true", help="print which functions and class names are meant")
    given = parser.parse_args()
    checkouts = [checkout.resolve() for checkout in given.checkouts]
    if given.details:
        for checkout in checkouts:
            _details(modules_of(checkout))
        return
    steps = {checkout: trace(checkout) for checkout in checkouts}
    if given.way:
        for checkout in checkouts:
            print("\n".join(dict.fromkeys(steps[checkout])))
        return
    names = given.names.split(",") if given.names else [checkout.name for checkout in checkouts]
    columns = [figures(checkout, steps[checkout]) for checkout in checkouts]
    print("|".join(["", "", *(f" {name} " for name in names), ""]).replace("||", "| |", 1))
    print("|".join(["", "---", *("---:" for _ in names), ""]))
    for name in columns[0]:
        print("| " + " | ".join([name, *(column[name] for column in columns)]) + " |")


def _details(modules: Sequence[Module]) -> None:
    for module in modules:
        for one in module.functions:
            if length(one) > LONG or parameters(one) > MANY:
                print(f"{module.name}.{one.name}: {length(one)} lines, {parameters(one)} parameters")
    where: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                where[node.name].append(module.name)
    for name, found in sorted(where.items()):
        if len(found) > 1:
            print(f"class {name}: {', '.join(found)}")


if __name__ == "__main__":
    main()
