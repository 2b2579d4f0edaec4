"""Curves and bars from block characters.

Pure: numbers in, lines of exactly the given width out.
"""

from collections.abc import Mapping, Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
LOWEST = 1


def area(values: Sequence[float], width: int, height: int, scale: tuple[float, float] | None = None) -> list[str]:
    """`height` lines of `width` characters, top line first: the values from left to right, scaled from the smallest (a
    low visible bar) to the largest, or between the two values of `scale`. If all are equal, they are half a line high.
    Fewer values than columns leave the right side empty."""
    if not values or width <= 0 or height <= 0:
        return [" " * max(0, width)] * max(0, height)
    columns = _resample(values, width)
    low, high = scale or (min(columns), max(columns))
    levels = [_level(value, low, high, height) for value in columns]
    return [
        "".join(BLOCKS[min(8, max(0, level - 8 * row))] for level in levels).ljust(width)
        for row in reversed(range(height))
    ]


def stripe(spans: Sequence[tuple[float, float] | None], height: int, scale: tuple[float, float]) -> list[list[bool]]:
    """The cells of `height` lines, top line first, that lie between the two values of each column, on the scale of
    `area`. At least one cell of a column with values."""
    ends = [None if span is None else [_level(value, *scale, height) for value in span] for span in spans]
    return [
        [end is not None and (end[0] - 1) // 8 <= row <= (end[1] - 1) // 8 for end in ends]
        for row in reversed(range(height))
    ]


def spark(values: Sequence[float], width: int) -> str:
    """The same in one line."""
    return area(values, width, 1)[0]


def curves(drawn: Mapping[str, Sequence[float | None]], height: int) -> list[str]:
    """`height` lines, top line first: each curve as points of its mark, a character, all on one scale. A later curve
    hides an earlier one. None leaves a column empty. The lines are as wide as the longest curve."""
    values = [value for curve in drawn.values() for value in curve if value is not None]
    width = max((len(curve) for curve in drawn.values()), default=0)
    rows = [[" "] * width for _ in range(height)]
    if values:
        low, high = min(values), max(values)
        for mark, curve in drawn.items():
            for column, value in enumerate(curve):
                if value is not None:
                    share = (value - low) / (high - low) if high > low else 0.5
                    rows[height - 1 - round(share * (height - 1))][column] = mark[:1]
    return ["".join(row) for row in rows]


def bar(share: float, width: int) -> str:
    """A bar of `width` characters, filled from the left to `share` in [0, 1], in eighths."""
    eighths = round(8 * width * min(1.0, max(0.0, share)))
    if share > 0:
        eighths = max(1, eighths)
    full, rest = divmod(eighths, 8)
    return ("█" * full + ("" if rest == 0 else "▏▎▍▌▋▊▉"[rest - 1])).ljust(width)


def _level(value: float, low: float, high: float, height: int) -> int:
    """The eighths of a line up to a value."""
    return LOWEST + round((8 * height - LOWEST) * (value - low) / (high - low)) if high > low else 4


def _resample(values: Sequence[float], width: int) -> list[float]:
    if len(values) <= width:
        return list(values)
    return [values[(index + 1) * len(values) // width - 1] for index in range(width)]
