"""Files of the repository that pages link to, as pages of the site.

A link of ``docs/`` may lead out of that folder: to a module, a folder, a notebook, CONTRIBUTING.md. In a
checkout, and wherever one is shown, such a link leads to the file. The site has a page for each of them.
"""

from __future__ import annotations

import ast
import json
import os.path
from pathlib import Path, PurePosixPath

from squall.properties.support.markdown import links, with_links
from squall.properties.support.paths import DOCS, ROOT

#: the page that the site begins with, and what stands there
HOME, HOME_OF = "index.md", "README.md"
#: below which pages of files are in the site
SOURCES = "source"
_LANGUAGES = {
    ".py": "python",
    ".json": "json",
    ".toml": "toml",
    ".yml": "yaml",
    ".cpp": "cpp",
    ".h": "cpp",
}


def repository_path(page: str) -> str:
    """The file of the repository that a page of the site shows."""
    if page == HOME:
        return HOME_OF
    if page.startswith(f"{SOURCES}/"):
        path = page.removeprefix(f"{SOURCES}/")
        if (ROOT / path).is_file():
            return path  # a page of Markdown has its own name
        path = path.removesuffix(".md")
        return path.removesuffix("/index")
    return f"{DOCS.name}/{page}"


def page_of(path: str) -> str:
    """The page, or the file, of the site that shows a file or folder of the repository."""
    if path == HOME_OF:
        return HOME
    if path.startswith(f"{DOCS.name}/"):
        return path.removeprefix(f"{DOCS.name}/")
    if (ROOT / path).is_dir():
        return f"{SOURCES}/{path}/index.md"
    return f"{SOURCES}/{path}" if path.endswith(".md") else f"{SOURCES}/{path}.md"


def target_of(link: str, path: str) -> tuple[str, str]:
    """Where a link of a file of the repository leads: a path, and an anchor or ""."""
    place, _, anchor = link.partition("#")
    if not place:
        return path, anchor
    return os.path.normpath(PurePosixPath(path).parent / place), anchor


def for_site(text: str, page: str) -> str:
    """A page's text, with links to where things are in the site."""
    path = repository_path(page)

    def change(link: str) -> str:
        target, anchor = target_of(link, path)
        if target == path:
            return link
        place = os.path.relpath(page_of(target), PurePosixPath(page).parent)
        return f"{place}#{anchor}" if anchor else place

    return with_links(text, change)


def linked_from(pages: list[str]) -> list[str]:
    """Files and folders outside of ``docs/`` that links of these files lead to, and those of the
    Markdown pages among them, and so on; sorted."""
    found: set[str] = set()
    waiting = list(pages)
    while waiting:
        path = waiting.pop()
        for link in links((ROOT / path).read_text(encoding="utf-8")):
            target, _ = target_of(link, path)
            if target in found or target.startswith(f"{DOCS.name}/") or target == HOME_OF:
                continue
            found.add(target)
            if target.endswith(".md"):
                waiting.append(target)
    return sorted(found)


def text_of(path: str) -> str:
    """A file or folder of the repository as the text of a page."""
    place = ROOT / path
    if place.is_dir():
        return _folder(place, path)
    text = place.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    if path.endswith(".ipynb"):
        return _notebook(json.loads(text))
    return f"# {path}\n\n{_fenced(text, _LANGUAGES.get(place.suffix, 'text'))}"


def _fenced(text: str, language: str) -> str:
    return f"`````{language}\n{text.rstrip()}\n`````\n"


def _folder(place: Path, path: str) -> str:
    rows = []
    for file in sorted(place.iterdir()):
        if file.name.startswith((".", "__")):
            continue
        name = f"{file.name}/" if file.is_dir() else file.name
        rows.append(f"| `{name}` | {_about(file)} |")
    return "\n".join([f"# {path}/", "", "| | |", "|---|---|", *rows, ""])


def _about(file: Path) -> str:
    """The first line of a module's docstring; "" for anything else."""
    module = file / "__init__.py" if file.is_dir() else file
    if module.suffix != ".py" or not module.exists():
        return ""
    told = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return told.partition("\n")[0].replace("|", "\\|")


def _notebook(notebook: dict[str, list[dict[str, object]]]) -> str:
    parts = []
    for cell in notebook["cells"]:
        source = cell["source"]
        text = "".join(source) if isinstance(source, list) else str(source)
        parts.append(text if cell["cell_type"] == "markdown" else _fenced(text, "python"))
    return "\n\n".join(parts) + "\n"
