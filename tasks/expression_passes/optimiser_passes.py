"""The passes of the optimiser. Each takes a graph and gives one that computes the same in every commutative ring.

No pass looks at what it costs. So one that helps a function may harm another, and some help only after others.
"""

from collections import Counter
from collections.abc import Callable

from expression_graphs import Builder, Graph
from optimiser_rewriting import (
    PRODUCTS,
    SUMS,
    Terms,
    Walk,
    chained,
    merged,
    split_product,
    summed,
    times,
    walked,
)
from optimiser_sharing import share, shared_factors, shared_terms

MOST = 24
"""Terms that the product of two sums may have."""


def _fold(walk: Walk, number: int) -> int | None:
    """Computes what is constant, and leaves out zeros and ones."""
    new, at = walk.new, walk.copied(number)
    op, *rest = new.nodes[at]
    known = [new.constant(operand) for operand in rest] if op in ("add", "sub", "mul", "neg", "sqr") else []
    if op == "shl" and new.constant(rest[0]) is not None:
        return new.const((new.constant(rest[0]) or 0) << rest[1])
    if known and None not in known:
        return new.const(_COMPUTE[op](*known))
    if op == "mul":
        for value, other in ((known[0], rest[1]), (known[1], rest[0])):
            if value in (-1, 0, 1):
                return (new.const(0), other, new.put("neg", other))[value or 0]
    if op == "add" and 0 in known:
        return rest[1] if known[0] == 0 else rest[0]
    if op == "sub" and 0 in known:
        return rest[0] if known[1] == 0 else new.put("neg", rest[1])
    if op == "sub" and new.same(*rest):
        return new.const(0)
    return at


_COMPUTE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "sqr": lambda a: a * a,
}


def _order(walk: Walk, number: int) -> int | None:
    """Sorts the two operands of each sum and product, so that `share` finds more."""
    op, *rest = walk.old[number]
    if op not in ("add", "mul"):
        return None
    return walk.new.put(op, *sorted(map(walk.at, rest), key=walk.new.value_number))


def _chain(walk: Walk, number: int) -> int | None:
    """Writes sums and products as chains, in one order everywhere."""
    op, new = walk.old[number][0], walk.new
    if op in SUMS:
        return summed(new, sorted(walk.terms(number), key=lambda term: new.value_number(term[1])))
    if op in PRODUCTS:
        return chained(new, "mul", sorted(walk.factors(number), key=new.value_number))
    return None


def _balance(walk: Walk, number: int) -> int | None:
    """Writes sums and products as trees of little depth."""
    op, new = walk.old[number][0], walk.new
    if op in PRODUCTS:
        return _halved(new, "mul", walk.factors(number))
    if op not in SUMS:
        return None
    terms = walk.terms(number)
    sides = [[part for sign, part in terms if sign == side] for side in (1, -1)]
    trees = [_halved(new, "add", side) if side else None for side in sides]
    if trees[0] is None or trees[1] is None:
        return trees[0] if trees[1] is None else new.put("neg", trees[1])
    return new.put("sub", trees[0], trees[1])


def _halved(new: Builder, op: str, parts: list[int]) -> int:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return new.put(op, _halved(new, op, parts[:middle]), _halved(new, op, parts[middle:]))


def _collect(walk: Walk, number: int) -> int | None:
    """Adds the coefficients of equal terms, and multiplies the constants of a product."""
    op, new = walk.old[number][0], walk.new
    if op in SUMS:
        return summed(new, merged(new, walk.scaled_terms(number)))
    if op not in PRODUCTS:
        return None
    coefficient, others = 1, list[int]()
    for factor in walk.factors(number):
        scale, part = walk.scaled(1, factor)
        coefficient *= scale
        others += [] if new.constant(part) == 1 else [part]
    return times(new, coefficient, chained(new, "mul", others) if others else new.const(1))


def _expand(walk: Walk, number: int) -> int | None:
    """Multiplies sums out."""
    op, *rest = walk.old[number]
    if op not in PRODUCTS:
        return None
    a, b = (_sum_terms(walk.new, walk.at(operand)) for operand in (rest * 2)[:2])
    if not 1 < len(a) * len(b) <= MOST:
        return None
    return summed(walk.new, [(x * y, walk.new.put("mul", m, n)) for x, m in a for y, n in b])


def _sum_terms(new: Builder, part: int, sign: int = 1) -> Terms:
    op, *rest = new.nodes[part]
    if op == "neg":
        return _sum_terms(new, rest[0], -sign)
    if op not in ("add", "sub"):
        return [(sign, part)]
    return _sum_terms(new, rest[0], sign) + _sum_terms(new, rest[1], -sign if op == "sub" else sign)


def _factor(walk: Walk, number: int) -> int | None:
    """Takes the factor that most terms of a sum have out of them, again and again: a · b + a · c is a · (b + c)."""
    if walk.old[number][0] not in SUMS:
        return None
    terms = [(sign, split_product(walk.new, part)) for sign, part in walk.terms(number)]
    return _factored(walk.new, terms)


def _factored(new: Builder, terms: list[tuple[int, list[int]]]) -> int:
    count = Counter(key for _, parts in terms for key in {new.value_number(part) for part in parts})
    key, often = max(count.items(), key=lambda item: (item[1], -item[0]), default=(0, 0))
    if often < 2:
        return summed(new, [(sign, chained(new, "mul", parts or [new.const(1)])) for sign, parts in terms])
    inside: list[tuple[int, list[int]]] = []
    outside: list[tuple[int, list[int]]] = []
    factor = 0
    for sign, parts in terms:
        place = next((i for i, part in enumerate(parts) if new.value_number(part) == key), None)
        if place is None:
            outside.append((sign, parts))
        else:
            factor = parts[place]
            inside.append((sign, parts[:place] + parts[place + 1 :]))
    product = new.put("mul", factor, _factored(new, inside))
    return product if not outside else new.put("add", product, _factored(new, outside))


def _powers(walk: Walk, number: int) -> int | None:
    """Computes powers in a product by squaring: x⁴ is (x²)²."""
    if walk.old[number][0] not in PRODUCTS:
        return None
    new, often = walk.new, Counter[int]()
    first: dict[int, int] = {}
    for factor in walk.factors(number):
        key = new.value_number(factor)
        first.setdefault(key, factor)
        often[key] += 1
    return chained(new, "mul", [_power(new, first[key], amount) for key, amount in sorted(often.items())])


def _power(new: Builder, base: int, exponent: int) -> int:
    if exponent == 1:
        return base
    half = _power(new, base, exponent // 2)
    square = new.put("mul", half, half)
    return new.put("mul", square, base) if exponent % 2 else square


def _squares(walk: Walk, number: int) -> int | None:
    """Writes x · x as a square."""
    at = walk.copied(number)
    op, *rest = walk.new.nodes[at]
    return walk.new.put("sqr", rest[0]) if op == "mul" and walk.new.same(*rest) else at


def _conjugate(walk: Walk, number: int) -> int | None:
    """Writes a · a − b · b as (a − b) · (a + b)."""
    new, at = walk.new, walk.copied(number)
    op, *rest = new.nodes[at]
    if op != "sub":
        return at
    a, b = (_root(new, part) for part in rest)
    return at if a is None or b is None else new.put("mul", new.put("sub", a, b), new.put("add", a, b))


def _root(new: Builder, part: int) -> int | None:
    op, *rest = new.nodes[part]
    return rest[0] if op == "sqr" or (op == "mul" and new.same(*rest)) else None


def _digits(signed: bool, most: int) -> Callable[[Graph], Graph]:
    """Multiplies by a constant by shifts and additions, where it has at most so many digits that are not 0."""

    def rule(walk: Walk, number: int) -> int | None:
        new, at = walk.new, walk.copied(number)
        if new.nodes[at][0] != "mul":
            return at
        coefficient, part = walk.scaled(1, at)
        digits = _written(abs(coefficient), signed)
        if part == at or new.constant(part) is not None or not 0 < len(digits) <= most:
            return at
        terms = [(sign, new.put("shl", part, place) if place else part) for sign, place in digits]
        total = summed(new, terms)
        return total if coefficient > 0 else new.put("neg", total)

    return walked(rule)


def _written(value: int, signed: bool) -> Terms:
    """(1 or -1, exponent) of the powers of two that make `value`."""
    found, place = Terms(), 0
    while value:
        if value & 1:
            digit = 2 - (value & 3) if signed else 1
            found.append((digit, place))
            value -= digit
        value, place = value >> 1, place + 1
    return found


def _fuse(walk: Walk, number: int) -> int | None:
    """Writes a · b + c as one operation."""
    op, *rest = walk.old[number]
    if op != "add":
        return None
    for product, other in (rest, rest[::-1]):
        if walk.old[product][0] == "mul" and walk.used[product] == 1:
            a, b = map(walk.at, walk.old[product][1:])
            return walk.new.put("fma", a, b, walk.at(other))
    return None


def _signs(walk: Walk, number: int) -> int | None:
    """Moves signs outwards, and makes a subtraction of them where there is one."""
    new, at = walk.new, walk.copied(number)
    op, *rest = new.nodes[at]
    if op not in ("add", "sub", "mul", "neg"):
        return at
    bare = [new.nodes[part][1] if new.nodes[part][0] == "neg" else None for part in rest[:2]]
    if op == "neg" and bare[0] is not None:
        return bare[0]
    if op == "neg" and new.nodes[rest[0]][0] == "sub":
        return new.put("sub", *new.nodes[rest[0]][:0:-1])
    if op == "mul" and bare != [None, None]:
        product = new.put("mul", *(part if one is None else one for part, one in zip(rest, bare, strict=True)))
        return product if None not in bare else new.put("neg", product)
    if op == "add" and bare[1] is not None:
        return new.put("sub", rest[0], bare[1])
    if op == "add" and bare[0] is not None:
        return new.put("sub", rest[1], bare[0])
    if op == "sub" and bare[1] is not None:
        return new.put("add", rest[0], bare[1])
    return at


PASSES: dict[str, Callable[[Graph], Graph]] = {
    "none": lambda graph: graph,
    "fold": walked(_fold),
    "signs": walked(_signs),
    "share": share,
    "order": walked(_order),
    "chain": walked(_chain),
    "balance": walked(_balance),
    "collect": walked(_collect),
    "expand": walked(_expand),
    "factor": walked(_factor),
    "powers": walked(_powers),
    "squares": walked(_squares),
    "conjugate": walked(_conjugate),
    "shifts": _digits(signed=False, most=1),
    "digits": _digits(signed=False, most=8),
    "signed_digits": _digits(signed=True, most=8),
    "common_terms": shared_terms,
    "common_factors": shared_factors,
    "fuse": walked(_fuse),
}
