"""Pages of the site that are made of files of the repository."""

from __future__ import annotations

import pytest

from squall.properties.site.docstrings import as_markdown
from squall.properties.site.flowchart import without_mermaid
from squall.properties.site.sources import (
    for_site,
    linked_from,
    page_of,
    repository_path,
    target_of,
    text_of,
)
from squall.properties.support.markdown import links
from squall.properties.support.paths import DOCS, ROOT


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("README.md", "index.md"),
        ("docs/faults.md", "faults.md"),
        ("CONTRIBUTING.md", "source/CONTRIBUTING.md"),
        ("model/protocol", "source/model/protocol/index.md"),
        ("model/protocol/passes/state.py", "source/model/protocol/passes/state.py.md"),
    ],
)
def test_a_file_and_its_page_know_each_other(path: str, page: str) -> None:
    assert page_of(path) == page
    assert repository_path(page) == path


def test_links_lead_from_page_to_page() -> None:
    text = "[a](../model/protocol) [b](faults.md#a-new-kind) [c](#here) [d](../README.md)"
    assert for_site(text, "protocol.md") == (
        "[a](source/model/protocol/index.md) [b](faults.md#a-new-kind) [c](#here) [d](index.md)"
    )
    text = "[a](docs/faults.md) [b](properties/findings/)"
    assert for_site(text, "source/CONTRIBUTING.md") == (
        "[a](../faults.md) [b](properties/findings/index.md)"
    )


def test_all_that_pages_link_to_has_a_page_with_a_title() -> None:
    pages = ["README.md", *(f"docs/{file.name}" for file in DOCS.glob("*.md"))]
    found = linked_from(pages)
    assert "CONTRIBUTING.md" in found and "notebooks/01_first_step.ipynb" in found
    for path in found:
        assert text_of(path).startswith("# "), path
        if path.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8")
            followed = {target_of(link, path)[0] for link in links(text)}
            assert {one for one in followed if not one.startswith(("docs/", "README"))} <= {*found}


def test_a_folder_says_what_its_modules_are() -> None:
    assert "| `replay.py` | A run as a path of the model" in text_of("model/protocol/passes")


def test_the_picture_of_the_rooms_needs_no_script() -> None:
    text = without_mermaid((DOCS / "architecture.md").read_text(encoding="utf-8"))
    assert "mermaid" not in text
    assert text.count("<svg") == 1 and ">one_process</text>" in text


def test_examples_of_docstrings_are_blocks() -> None:
    told = "See :func:`~squall.sim.library.run.run`.\n\n>>> 1 + 1\n2\n\nMore."
    assert as_markdown(told) == "See `run.run`.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."
