"""The documentation site: it builds without a warning, its links lead to pages, and it asks no other host."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r'<(?:script|img|iframe|source|object|embed)\b[^>]*\b(?:src|data)="([^"]*)"')
LINKED = re.compile(r'<link\b[^>]*\bhref="([^"]*)"')
ANCHORS = re.compile(r'<a\b[^>]*\bhref="([^"]*)"')


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning_and_asks_no_other_host(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed: make docs")
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs/site", "-b", "html", ".", str(site)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=800,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    pages = sorted(site.rglob("*.html"))
    for name in ("docs/index", "docs/python", "README", "CONTRIBUTING", "CHANGELOG", "tasks/columnar/README"):
        assert site / f"{name}.html" in pages
    assert "sandbox" in (site / "searchindex.js").read_text(encoding="utf-8")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        foreign = [url for url in (*LOADED.findall(text), *LINKED.findall(text)) if urlparse(url).netloc]
        assert foreign == [], page
        assert _missing(page, text) == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def _missing(page: Path, text: str) -> list[str]:
    """Links of a page to files that are not there."""
    urls: list[str] = ANCHORS.findall(text)
    found = [urlparse(url) for url in urls]
    paths = [unquote(url.path) for url in found if url.path and not url.scheme and not url.netloc]
    return [path for path in paths if not (page.parent / path).exists()]
