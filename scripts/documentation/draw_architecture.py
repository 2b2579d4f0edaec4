"""Draw docs/architecture.svg (processes, and the way of one candidate) and docs/rooms.svg (which room imports which).

    python scripts/documentation/draw_architecture.py

The first is laid out by hand. The second is drawn from the layers that import-linter enforces, in pyproject.toml.
"""

import tomllib
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #1c2430; } .sub { font-size: 11.5px; fill: #5b6675; }
.title { font-weight: 600; } .page { fill: #ffffff; } .process { fill: #f2f5f9; stroke: #8a97a8; }
.room { fill: #dbe8fb; stroke: #4a78c2; } .outside { fill: none; stroke: #8a97a8; stroke-dasharray: 5 4; }
.store { fill: #e2f3e4; stroke: #4d9a58; } .line { fill: none; stroke: #44505f; stroke-width: 1.4; }
.pure { fill: #f7ecd6; stroke: #b98a35; } marker path { fill: #44505f; }
@media (prefers-color-scheme: dark) {
text { fill: #e4e9f0; } .sub { fill: #a3afbe; } .page { fill: #14181e; } .process { fill: #1d232b; stroke: #6b7787; }
.room { fill: #22375a; stroke: #6d97da; } .outside { stroke: #6b7787; } .store { fill: #1f3a26; stroke: #69b276; }
.line { stroke: #b4c0ce; } .pure { fill: #41351c; stroke: #d0a559; } marker path { fill: #b4c0ce; }
}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">
<path d="M0 0 8 4 0 8z"/></marker></defs>"""
PURE = ("search", "staleness", "objectives", "reward", "fitness")


def box(x: int, y: int, width: int, height: int, kind: str, title: str, *subs: str) -> str:
    """A rectangle with a title and smaller lines below it, centred."""
    middle, first = x + width / 2, y + height / 2 + 5 - 8 * len(subs)
    lines = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>']
    lines.append(f'<text class="title" x="{middle}" y="{first}" text-anchor="middle">{escape(title)}</text>')
    for number, sub in enumerate(subs, 1):
        lines.append(
            f'<text class="sub" x="{middle}" y="{first + 16 * number}" text-anchor="middle">{escape(sub)}</text>'
        )
    return "\n".join(lines)


def arrow(path: str, *, both: bool = False) -> str:
    start = ' marker-start="url(#tip)"' if both else ""
    return f'<path class="line" d="{path}" marker-end="url(#tip)"{start}/>'


def note(x: int, y: int, text: str, anchor: str = "start") -> str:
    return f'<text class="sub" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def page(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
    label = escape(title, quote=True)
    background = f'<rect class="page" width="{width}" height="{height}"/>'
    return "\n".join([f'{head} aria-label="{label}">', STYLE, background, *parts, "</svg>"]) + "\n"


def processes() -> str:
    """The processes, their exchange, and the ten steps of a candidate and its group."""
    left, right = 280, 600
    parts = [
        '<rect class="process" x="250" y="40" width="620" height="470" rx="10"/>',
        '<text class="title" x="270" y="66">Runtime: one event loop, one search thread an island</text>',
        note(270, 84, "The only writer of the database. Imports no torch."),
    ]
    rooms = (
        (left, 100, "1  Gate", "one more lease? · staleness"),
        (right, 100, "2  Choose parent and ideas", "search"),
        (right, 190, "3  Advise", "propose, assess, select · advise"),
        (right, 275, "4  Implement", "experiment to program · implement"),
        (right, 360, "5  Evaluate", "run, then score · evaluate"),
        (right, 445, "6  Reward", "0 to 5, or −1 · reward"),
        (left, 445, "7  Record", "commit, apply, show"),
        (left, 360, "8  Form a group", "B leases, by deadline · staleness, replay"),
        (left, 275, "9  Learn", "one step a group · objectives, learn"),
        (left, 190, "10  Publish", "version L + 1, receipt · publish"),
    )
    parts += [box(x, y, 240, 52, "room", title, sub) for x, y, title, sub in rooms]
    parts += [arrow(f"M{left + 240} 126H{right - 2}"), arrow(f"M{right} 471H{left + 242}")]
    parts += [arrow(f"M{right + 120} {y}V{y + gap}") for y, gap in ((152, 36), (242, 31), (327, 31), (412, 31))]
    parts += [arrow(f"M{left + 120} {y}V{y - gap}") for y, gap in ((445, 31), (360, 31), (275, 31), (190, 36))]
    parts += [
        box(930, 165, 250, 78, "process", "Engine", "embedded, or vLLM", "tokens, log-probabilities, versions"),
        arrow("M842 216H928", both=True),
        note(886, 209, "HTTP", "middle"),
        arrow("M480 190V171H900V180H928"),
        note(530, 166, "weights"),
        box(930, 268, 250, 66, "outside", "Implementer", "catalogue in the runtime,", "or a model service by litellm"),
        arrow("M842 301H928", both=True),
        box(930, 352, 250, 66, "process", "Candidates", "a sandboxed process each,", "forked from a warm parent"),
        arrow("M842 380H928", both=True),
        box(930, 440, 250, 66, "process", "Scorers", "trusted: they see outputs,", "they never load a program"),
        arrow("M842 392H884V473H928", both=True),
        box(20, 258, 180, 86, "process", "Learner", "TRL trainer, a child", "without a database"),
        arrow("M278 292H202"),
        note(240, 285, "group file", "middle"),
        arrow("M202 312H278"),
        note(240, 327, "weights", "middle"),
        box(left, 556, 240, 70, "store", "Population", "SQLite or PostgreSQL", "facts, in the order of their commits"),
        arrow("M400 497V554"),
        box(20, 556, 180, 70, "process", "Readers", "pace status, report, …", "any SQL client"),
        arrow("M278 591H202"),
        box(right, 556, 240, 70, "process", "Helpers", "compile, edit and compare texts", "bounded in time and memory"),
        arrow("M720 512V554", both=True),
    ]
    return page(1200, 646, "Processes of a run and the way of one candidate", parts)


def layers() -> list[list[str]]:
    """The rooms, from the top, as import-linter enforces them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["type"] == "layers" and "pace_async" in one.get("containers", [])]
    return [[name.strip() for name in layer.replace(":", "|").split("|")] for layer in contract["layers"]]


def rooms() -> str:
    """Rows of rooms: each imports only from rows below its own."""
    parts = [note(20, 24, "A room imports only from rows below its own. Yellow: pure, values in and values out.")]
    rows, height = layers(), 46
    for number, names in enumerate(rows):
        width = min(200, (960 - 10 * (len(names) - 1)) // len(names))
        start = 20 + (960 - len(names) * width - 10 * (len(names) - 1)) // 2
        for place, name in enumerate(names):
            kind = "pure" if name in PURE else "room"
            parts.append(box(start + place * (width + 10), 40 + number * height, width, 34, kind, name))
    return page(1000, 50 + len(rows) * height, "Rooms of the package, in the order of their imports", parts)


PICTURES = {"docs/architecture.svg": processes, "docs/rooms.svg": rooms}


def main() -> None:
    for name, draw in PICTURES.items():
        (ROOT / name).write_text(draw(), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
