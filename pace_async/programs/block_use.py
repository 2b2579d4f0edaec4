"""Whether what is written into the evolve block of a seed program can matter.

It cannot if nothing that the program's entry reaches is defined in the block, or if a name of the block is bound again
after it: whatever a model writes is then ignored, and scores as the seed program does. A fixed entry that calls into
the block is right. Only Python is read. It is asked once a task, never of a candidate.

Invariant: where the text does not tell, the block can matter. So a program that looks names up by text (`globals`,
`eval`, …) is not refused for what it does not reach, and a statement that changes an object (`table["x"] = f`,
`table.add(f)`, a decorator) counts as a definition of that object. Names are those of the scope in which the block
stands, also where that is a function. Not here: names that are bound by text, as in `globals()["f"] = g`.
"""

import ast
import copy
import re
import symtable
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pace_async.programs.text import is_marked, parted, split_block

BY_TEXT = frozenset({"globals", "locals", "vars", "eval", "exec", "__import__", "import_module", "modules"})
"""Names of what looks names up by text."""
ALL = "*"
"""The name that an import of everything binds."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BODIES = ("body", "orelse", "finalbody")
_AS_MAIN = ("__name__ == '__main__'", "'__main__' == __name__")


def why_unused(program: str, entry: str | None) -> str:
    """Why nothing that is written into the evolve block can matter, as a clause. Empty if something can, for a program
    without marks, and for what is no program. `entry`: the function that is called, "" for a program that is run as a
    whole, None where any of its names may be used."""
    if not is_marked(program):
        return ""
    try:
        parts = parted(program)
        name, text = next((name, text) for name, text in parts if is_marked(text))
        block = _block_in(text, whole=not entry)
        if clause := _bound_again(block):
            return clause
        if entry is None:
            return ""
        trees = [ast.parse(other) for other_name, other in parts if other_name != name]
        if any(_by_text(tree) for tree in (ast.parse(text), *trees)):
            return ""
        if name == parts[0][0]:
            return _not_reached(block, {entry} if entry else _executed(block.top), entry or "the program")
        imported = _imported(trees, name.removesuffix(".py"))
        return "" if ALL in imported else _not_reached(block, imported, "any other file")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""


def defines(program: str, entry: str) -> bool:
    """Whether a program may bind this name at its top level, as far as the text tells. Of several files the first has
    to. A text that does not compile does not."""
    text = parted(program)[0][1]
    if re.search(rf"^(?:async[ \t]+)?def[ \t]+{entry}\b", text, re.MULTILINE):
        return True
    if re.search(rf"\b(?:{'|'.join(map(re.escape, BY_TEXT))}|setattr)\b|\bimport[ \t]*\*", text):
        return True
    try:
        table = symtable.symtable(text, "program", "exec")
    except (SyntaxError, ValueError):
        return False
    except (RecursionError, MemoryError):
        return True
    return entry in _bound(table) | _late(table)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A statement, or the head of a compound one, and the names of its own scope. `late` are bound when a function of
    it runs, `changed` are objects that it changes. `used` includes what the heads around it use."""

    node: ast.stmt
    lines: range
    bound: frozenset[str]
    late: frozenset[str]
    used: frozenset[str]
    changed: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Block:
    """The statements of the file (`top`), those of the scope in which the block stands, and the lines of the block.
    `around` are the definitions around the block, from outside inwards."""

    top: Sequence[_Leaf]
    scope: Sequence[_Leaf]
    around: Sequence[_Definition]
    lines: range

    @property
    def inside(self) -> list[_Leaf]:
        return [leaf for leaf in self.scope if _overlap(leaf.lines, self.lines)]


def _block_in(text: str, *, whole: bool) -> _Block:
    before, block, _ = split_block(text)
    first = before.count("\n") + 1
    lines = range(first, first + block.count("\n"))
    tree = ast.parse(text)
    top = scope = list(_leaves(tree.body, whole=whole))
    around: list[_Definition] = []
    while True:
        inside = [leaf for leaf in scope if _overlap(leaf.lines, lines)]
        if len(inside) != 1 or inside[0].lines.start >= lines.start or not isinstance(inside[0].node, _DEFINITIONS):
            return _Block(top, scope, around, lines)
        around.append(inside[0].node)
        scope = list(_leaves(inside[0].node.body, whole=whole))


def _overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _leaves(body: Iterable[ast.stmt], under: frozenset[str] = frozenset(), *, whole: bool) -> Iterator[_Leaf]:
    """The statements of a scope. What only a program that is run as a whole does is left out of one that is not."""
    for node in body:
        if isinstance(node, _DEFINITIONS) or not hasattr(node, "body"):
            yield _leaf(node, under)
        elif whole or not (isinstance(node, ast.If) and ast.unparse(node.test) in _AS_MAIN):
            head = _leaf(_head(node), under)
            yield head
            for inner in _inner(node):
                yield from _leaves(inner, head.used, whole=whole)


def _inner(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The bodies of a compound statement."""
    for inner in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        for name in _BODIES:
            yield getattr(inner, name, [])


def _head(node: ast.stmt) -> ast.stmt:
    """A compound statement without its bodies, on the lines above the first."""
    head = copy.copy(node)
    for name in _BODIES:
        if getattr(head, name, None):
            setattr(head, name, [ast.Pass()])
    for name in ("handlers", "cases"):
        if hasattr(head, name):
            setattr(head, name, [copy.copy(inner) for inner in getattr(head, name)])
            for inner in getattr(head, name):
                inner.body = [ast.Pass()]
    first = next(body[0] for body in _inner(node) if body)
    head.end_lineno = max(node.lineno, first.lineno - 1)
    return head


def _leaf(node: ast.stmt, under: frozenset[str]) -> _Leaf:
    begins = [node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))]
    table = symtable.symtable(ast.unparse(_NonlocalIsGlobal().visit(copy.deepcopy(node))), "statement", "exec")
    bound = _bound(table)
    nested = (item for child in _below(table) for item in child.get_symbols() if item.is_global())
    used = {item.get_name() for item in (*table.get_symbols(), *nested) if item.is_referenced()}
    if isinstance(node, ast.ImportFrom) and any(alias.name == ALL for alias in node.names):
        bound.add(ALL)
    lines = range(min(begins), (node.end_lineno or node.lineno) + 1)
    changed = frozenset(_changed(node))
    return _Leaf(node, lines, frozenset(bound), frozenset(_late(table)), frozenset(used | under), changed)


class _NonlocalIsGlobal(ast.NodeTransformer):
    """A statement alone has no scope around it to which `nonlocal` could refer."""

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Global:
        return ast.copy_location(ast.Global(node.names), node)


def _below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _below(child)


def _bound(table: symtable.SymbolTable) -> set[str]:
    """Names that a scope binds itself."""
    symbols = table.get_symbols()
    return {
        symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }


def _late(table: symtable.SymbolTable) -> set[str]:
    """Names of the scope that its functions bind, by `global`."""
    nested = (symbol for child in _below(table) for symbol in child.get_symbols())
    return {symbol.get_name() for symbol in nested if symbol.is_declared_global() and symbol.is_assigned()}


def _changed(node: ast.stmt) -> set[str]:
    """Names of objects that a statement changes, or that a definition may tell of itself."""
    if isinstance(node, _DEFINITIONS):
        return _names([*node.decorator_list, *getattr(node, "bases", ())])
    if isinstance(node, ast.Expr):
        return _names([node])
    parts = (part for part in ast.walk(node) if isinstance(part, ast.Attribute | ast.Subscript))
    return _names(part.value for part in parts if not isinstance(part.ctx, ast.Load))


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def _bound_again(block: _Block) -> str:
    """A clause that names what is bound again after the block, or nothing."""
    waiting = {name: leaf for leaf in block.inside for name in leaf.bound}
    in_function = bool(block.around) and not isinstance(block.around[-1], ast.ClassDef)
    for leaf in block.scope:
        if _overlap(leaf.lines, block.lines):
            continue
        again = set(leaf.late)
        if leaf.lines.start >= block.lines.stop:
            if in_function:  # statement by statement: what is used first is not lost
                for name in leaf.used:
                    waiting.pop(name, None)
            again |= waiting.keys() if ALL in leaf.bound else leaf.bound
        for name in sorted(again & waiting.keys()):
            if (origin := _origin(leaf.node, name)) is None or origin != _origin(waiting[name].node, name):
                return f"`{name}`, which the evolve block defines, is bound again outside it (line {leaf.lines.start})"
    return ""


def _origin(node: ast.stmt, name: str) -> tuple[str, ...] | None:
    """What an import binds the name to. None for another statement."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return None
    module = f"{'.' * node.level}{node.module or ''}" if isinstance(node, ast.ImportFrom) else ""
    return next((("import", module, alias.name) for alias in node.names if name in (alias.asname, alias.name)), None)


def _not_reached(block: _Block, roots: Iterable[str], who: str) -> str:
    """A clause that says that nothing of the block is reached from these names, or nothing."""
    nothing = f"nothing that {who} uses is defined in the evolve block"
    if not block.inside:
        return nothing
    if block.around and isinstance(block.around[-1], ast.ClassDef):
        inside = True  # its methods are reached by attributes
    else:
        inside = not block.around or _used_around(block)
    imported = {name for leaf in block.top if isinstance(leaf.node, ast.Import | ast.ImportFrom) for name in leaf.bound}
    reached: set[str] = set()
    waiting = set(roots)
    while waiting:
        name = waiting.pop()
        reached.add(name)
        for leaf in block.top:
            changed = leaf.changed if isinstance(leaf.node, ast.Expr) else leaf.changed - imported
            if name not in leaf.bound | leaf.late | changed:
                continue
            if _overlap(leaf.lines, block.lines):
                return "" if inside else nothing
            waiting |= (leaf.used | changed) - reached
    return nothing


def _used_around(block: _Block) -> bool:
    """Whether a block in a function does more than bind names, or binds one that the function uses outside it."""
    binding = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Import, ast.ImportFrom, ast.Pass, *_DEFINITIONS)
    inside = block.inside
    if any(leaf.changed or not isinstance(leaf.node, binding) for leaf in inside):
        return True
    bound = {name for leaf in inside for name in leaf.bound}
    return any(bound & leaf.used for leaf in block.scope if not _overlap(leaf.lines, block.lines))


def _executed(top: Sequence[_Leaf]) -> set[str]:
    """Names that a program uses when it is run."""
    return {name for leaf in top if not isinstance(leaf.node, _DEFINITIONS) for name in leaf.used | leaf.bound}


def _by_text(tree: ast.AST) -> bool:
    names = (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(tree))
    return any(name in BY_TEXT for name in names)


def _imported(trees: Iterable[ast.AST], module: str) -> set[str]:
    """Names that other files import of a module, ALL for the module itself or all of its names."""
    names: set[str] = set()
    for node in (part for tree in trees for part in ast.walk(tree)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2] == module:
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Import | ast.ImportFrom) and any(
            alias.name.rpartition(".")[2] == module for alias in node.names
        ):
            names.add(ALL)
    return names
