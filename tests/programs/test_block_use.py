"""Whether a block can matter: what is refused, and what is not."""

import pytest

from pace_async.programs.block_use import why_unused
from pace_async.programs.text import join_files
from pace_async.task import load_task, task_folders


def program(block: str, after: str = "", before: str = "", indent: str = "") -> str:
    return f"{before}{indent}# EVOLVE-BLOCK-START\n{block}{indent}# EVOLVE-BLOCK-END\n{after}"


F = "def f(instance):\n    return g(instance)\n"
G = "def g(x):\n    return x\n"
AGAIN = {
    "an assignment": "g = abs\n",
    "an assignment to several": "a, (g, *b) = 1, (abs, 2)\n",
    "an annotated one": "g: object = abs\n",
    "an augmented one": "g += 1\n",
    "a walrus": "print(g := abs)\n",
    "a walrus in a comprehension": "print([(g := x) for x in [abs]])\n",
    "an import": "import math as g\n",
    "an import of a package": "import g.inner\n",
    "an import from a module": "from math import sin as g\n",
    "a star import": "from math import *\n",
    "a function": G,
    "an async function": f"async {G}",
    "a class": "class g:\n    pass\n",
    "a deletion": "del g\n",
    "a loop": "for g in [abs]:\n    pass\n",
    "a context": "with open('x') as g:\n    pass\n",
    "an error's name": "try:\n    pass\nexcept ValueError as g:\n    pass\n",
    "a pattern": "match abs:\n    case g:\n        pass\n",
    "a condition": f"if True:\n    {G.replace(chr(10), chr(10) + '    ').rstrip()}\n",
    "an attempt": "try:\n    from fast import g\nexcept ImportError:\n    pass\n",
    "a global of a function": "def change():\n    global g\n    g = abs\n",
    "a global of a method": "class C:\n    def change(self):\n        global g\n        del g\n",
}


@pytest.mark.parametrize("after", AGAIN.values(), ids=AGAIN.keys())
def test_a_name_that_is_bound_again_after_the_block_is_found(after: str) -> None:
    assert "`g`" in why_unused(program(G, F + after), "f")
    assert "is bound again" in why_unused(program(F + G, after), "f")


def test_a_function_before_the_block_that_binds_its_name_by_global_is_found() -> None:
    before = "def change():\n    global g\n    g = abs\n\n\n"
    assert "`g`" in why_unused(program(G, F, before), "f")


def test_the_entry_bound_again_is_found() -> None:
    assert why_unused(program(F + G, F), "f") == (
        "`f`, which the evolve block defines, is bound again outside it (line 7)"
    )


LOST = {
    "settings that a local variable hides": program("k = 3\n", "def f(x):\n    k = 2\n    return k * x\n"),
    "a function that nothing calls": program("def h(x):\n    return x\n", F + G),
    "a chain that ends before the entry": program("a = 1\n", "b = a\n\n\ndef f(x):\n    return x\n"),
    "a parameter of the same name": program("g = 3\n", "def f(g):\n    return g\n"),
    "only a comment": program("# nothing\n", F + G),
    "nothing": program("", F + G),
    "what only the main part uses": program(
        "k = 3\n", "def f(x):\n    return x\n\n\nif __name__ == '__main__':\n    print(f(k))\n"
    ),
    "a local variable that is not used": program("    k = 3\n", "    return x\n", "def f(x):\n", "    "),
    "a function of a function that is not reached": program(
        "    return x\n", "\n\ndef f(x):\n    return x\n", "def g(x):\n", "    "
    ),
}


@pytest.mark.parametrize("text", LOST.values(), ids=LOST.keys())
def test_a_block_of_which_the_entry_reaches_nothing_is_found(text: str) -> None:
    assert why_unused(text, "f") == "nothing that f uses is defined in the evolve block"


MATTERS = {
    "the whole program": program(F + G),
    "a fixed entry that calls into the block": program(G, F),
    "a fixed entry before it": program(G, before=F),
    "settings": program("k = 3\n", "def f(x):\n    return k * x\n"),
    "settings in a chain": program("k = 3\n", "M = {'a': lambda x: k * x}\n\n\ndef f(x):\n    return M['a'](x)\n"),
    "a default": program("k = 3\n", "def f(x, k=k):\n    return k * x\n"),
    "a decorator": program("def g(f):\n    return f\n", "@g\ndef f(x):\n    return x\n"),
    "a method": program(
        "class C:\n    def m(self, x):\n        return x\n", "c = C()\n\n\ndef f(x):\n    return c.m(x)\n"
    ),
    "an object that it changes": program("T['a'] = 2\n", "def f(x):\n    return T['a']\n", "T = {}\n"),
    "an object that it tells": program("T.append(2)\n", "def f(x):\n    return T\n", "T = []\n"),
    "a registry": program("@T.add\ndef g(x):\n    return x\n", "def f(x):\n    return T.all(x)\n", "T = Table()\n"),
    "a class that its base knows": program(
        "class C(B):\n    pass\n", "def f(x):\n    return B.__subclasses__()\n", "class B:\n    pass\n\n\n"
    ),
    "a name that is looked up": program(G, "def f(x):\n    return globals()['g'](x)\n"),
    "a part of a dictionary": program("    'a': 2,\n", "}\n\n\ndef f(x):\n    return T['a']\n", "T = {\n", "    "),
    "the body of the entry": program("    return x\n", "", "def f(x):\n", "    "),
    "a local variable": program("    k = 3\n", "    return k * x\n", "def f(x):\n", "    "),
    "a local variable that is used and then bound again": program(
        "    k = 3\n", "    k = max(k, 2)\n    return k * x\n", "def f(x):\n", "    "
    ),
    "a local function": program(
        "    def g(x):\n        return x\n", "    return [g(y) for y in x]\n", "def f(x):\n", "    "
    ),
    "a body that returns now and then": program(
        "    if x:\n        return 1\n", "    return 2\n", "def f(x):\n", "    "
    ),
    "a method in the block": program(
        "    def m(self, x):\n        return x\n", "\n\ndef f(x):\n    return C().m(x)\n", "class C:\n", "    "
    ),
    "a condition around it": program("    k = 3\n", "\n\ndef f(x):\n    return k\n", "if True:\n", "    "),
    "a condition that it steers": program(
        "k = 3\n", "if k > 2:\n    m = 1\nelse:\n    m = 2\n\n\ndef f(x):\n    return m\n"
    ),
    "the same import again": program("import math\n\n\n" + G, "import math\n\n\n" + F),
    "a variable of a comprehension": program(F + G + "x = 1\n", "t = [x for x in range(3)]\n"),
    "a local variable of another function": program(G, F + "\n\ndef h():\n    g = 2\n    return g\n"),
    "the main part": program(F + G, "if __name__ == '__main__':\n    g = f(2)\n    print(g)\n"),
    "a name bound before it": program(G, F, "g = None\n"),
    "no program": program("def g(:\n", F),
    "no marks": "def g(x):\n    return x\n",
}


@pytest.mark.parametrize("text", MATTERS.values(), ids=MATTERS.keys())
def test_a_block_that_can_matter_is_not_found(text: str) -> None:
    assert why_unused(text, "f") == ""


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("    g = abs\n    return g(x)\n", "`g`"),
        ("    def change():\n        nonlocal g\n        g = abs\n    change()\n    return g(x)\n", "`g`"),
        ("    def g(y):\n        return 2 * y\n    return g(x)\n", "`g`"),
        ("    from math import sin as g\n    return g(x)\n", "`g`"),
    ],
)
def test_a_name_of_a_block_in_a_function_that_is_bound_again_before_it_is_used_is_found(after: str, found: str) -> None:
    assert found in why_unused(program("    def g(y):\n        return y\n", after, "def f(x):\n", "    "), "f")


def test_a_block_in_a_method_or_a_class_is_read_in_its_scope() -> None:
    method = program("        k = 3\n", "        return k\n", "class C:\n    def m(self, x):\n", "        ")
    assert why_unused(method + "\n\ndef f(x):\n    return C().m(x)\n", "f") == ""
    assert why_unused(method + "\n\ndef f(x):\n    return x\n", "f")
    body = program("    def m(self, x):\n        return x\n", "    m = None\n", "class C:\n", "    ")
    assert "`m`" in why_unused(body + "\n\ndef f(x):\n    return C().m(x)\n", "f")


def test_a_program_that_is_run_as_a_whole_has_its_statements_for_an_entry() -> None:
    assert why_unused(program(G, "print(g(2))\n"), "") == ""
    assert why_unused(program(G, "if __name__ == '__main__':\n    print(g(2))\n"), "") == ""
    assert why_unused(program(G, "print(2)\n"), "") == "nothing that the program uses is defined in the evolve block"


def test_of_a_program_that_others_use_in_any_way_only_names_bound_again_are_found() -> None:
    assert why_unused(program(G, "print(2)\n"), None) == ""
    assert "`g`" in why_unused(program(G, "g = abs\n"), None)


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("from moves import g\n\n\n" + F, ""),
        ("import moves\n\n\ndef f(x):\n    return moves.g(x)\n", ""),
        ("from moves import *\n\n\n" + F, ""),
        ("from moves import h as g\n\n\n" + F, "nothing that any other file uses is defined in the evolve block"),
        ("def f(x):\n    return x\n", "nothing that any other file uses is defined in the evolve block"),
    ],
)
def test_a_block_in_another_file_is_reached_by_what_is_imported_of_it(first: str, found: str) -> None:
    moves = program(G, "def h(x):\n    return x\n")
    assert why_unused(join_files({"initial.py": first, "moves.py": moves}), "f") == found


@pytest.mark.parametrize("name", sorted(task_folders()))
def test_the_block_of_every_bundled_task_can_matter(name: str) -> None:
    task = load_task(name)
    assert task.spec.of_kind.calls_function
    assert why_unused(task.program, task.spec.entry) == ""
