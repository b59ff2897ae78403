"""What MkDocs calls as it builds the site: pages of files outside of ``docs/``, links to them, pictures."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[2]))  # MkDocs loads this file by its path

from squall.properties.site.flowchart import without_mermaid
from squall.properties.site.sources import (
    HOME,
    HOME_OF,
    for_site,
    linked_from,
    page_of,
    repository_path,
    text_of,
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page that the site begins with, and one for each file that a link leads to."""
    pages = [HOME_OF]
    pages += [repository_path(file.src_uri) for file in files.documentation_pages()]
    files.append(File.generated(config, HOME, content=text_of(HOME_OF)))
    for path in linked_from(pages):
        files.append(File.generated(config, page_of(path), content=text_of(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to where things are in the site."""
    return without_mermaid(for_site(markdown, page.file.src_uri))
