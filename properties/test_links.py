"""Links of the documentation lead somewhere: each file, and each heading that an anchor names."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.properties.site.sources import target_of
from squall.properties.support.markdown import anchors, blocks, links, slug, with_links
from squall.properties.support.paths import DOCS, ROOT

PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(file: Path) -> None:
    wrong = []
    for link in links(file.read_text(encoding="utf-8")):
        path, anchor = target_of(link, file.relative_to(ROOT).as_posix())
        place = ROOT / path
        if not place.exists() or (
            anchor and anchor not in anchors(place.read_text(encoding="utf-8"))
        ):
            wrong.append(link)
    assert wrong == []


def test_every_page_is_led_to_from_another_one() -> None:
    """In the site's contents, and by a link of a page: some read the pages without the site."""
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    led_to = {
        target_of(link, file.relative_to(ROOT).as_posix())[0]
        for file in PAGES
        for link in links(file.read_text(encoding="utf-8"))
    }
    for page in DOCS.rglob("*.md"):
        assert f"{page.relative_to(DOCS).as_posix()}\n" in contents
        assert page.relative_to(ROOT).as_posix() in led_to, page


TEXT = """\
# A *title* of `x_y`, and more
# Twice
See [a](one.md#two), ![b](c.webp) and `[no](link)`.
```python title="f.py"
[no](link)
# no heading
```
# Twice
    [no](link)

    [no](link)
[e](https://example.org) [f](#twice)
"""


def test_links_in_code_are_none() -> None:
    assert links(TEXT) == ["one.md#two", "c.webp", "link", "#twice"]
    assert with_links(TEXT, str.upper).count("ONE.MD") == 1
    assert with_links(TEXT, str) == TEXT


def test_equal_headings_have_anchors_of_their_own() -> None:
    assert anchors(TEXT) == {"a-title-of-x_y-and-more", "twice", "twice-1"}
    assert slug("`squall run`: [what](x.md) it -- does") == "squall-run-what-it----does"


def test_a_block_has_a_language_and_a_title() -> None:
    (block,) = blocks(TEXT)
    assert (block.language, block.title, block.line) == ("python", "f.py", 5)
    assert block.text == "[no](link)\n# no heading\n"
