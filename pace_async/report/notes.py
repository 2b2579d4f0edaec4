"""The notes of a run: the newest page, and earlier ones folded. Pure."""

from collections.abc import Sequence

from pace_async.observe import formatting
from pace_async.observe.spending import UNKNOWN
from pace_async.population.reading.written_notes import WrittenNotes
from pace_async.report.markup import Markup, tag
from pace_async.report.parts import card

EARLIER = 20
"""The earlier pages that are shown, the latest of them."""


def notes(pages: Sequence[WrittenNotes]) -> list[Markup]:
    """Nothing if there are none."""
    if not pages:
        return []
    *earlier, newest = pages
    cards = [_page(page) for page in reversed(earlier[-EARLIER:])]
    name = f"{len(cards)} of {len(earlier)} earlier pages" if len(cards) < len(earlier) else "Earlier pages"
    return [_page(newest), *([tag("details", tag("summary", name), *cards)] if cards else [])]


def _page(written: WrittenNotes) -> Markup:
    page = written.page
    tokens = f"{written.prompt_tokens:,} tokens in, {written.completion_tokens:,} out"
    cost = UNKNOWN if written.cost_usd is None else formatting.usd(written.cost_usd)
    caption = f"After {page.candidates} candidates, by {written.model}: {tokens}, {cost}."
    return card(tag("p", caption, class_="sub"), tag("pre", page.text, class_="page"))
