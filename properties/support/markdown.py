"""Links and headings of Markdown pages, as GitHub and the site of the documentation read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})(.*)$")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_LINK = re.compile(r"(\[[^\]]*\]\()([^)\s]+)(\))")
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$")
_ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)")


@dataclass(frozen=True)
class Block:
    """A fenced block: ``info`` is what follows its opening fence, ``line`` counts from 1."""

    info: str
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.info.split(maxsplit=1)[0] if self.info.strip() else ""

    @property
    def title(self) -> str:
        """The name of a file, from ``title="…"``; "" if there is none."""
        found = re.search(r'title="([^"]+)"', self.info)
        return found[1] if found else ""


def _parted(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Number, text, and, within a fenced block, the info of each line; fences are left out."""
    fence = info = None
    for number, line in enumerate(text.splitlines(), start=1):
        found = _FENCE.match(line)
        if found and fence is None:
            fence, info = found[2], found[3].strip()
        elif found and fence and found[2].startswith(fence) and not found[3].strip():
            fence = None
        else:
            yield number, line, info if fence else None


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in their order; an empty one is left out."""
    found: list[tuple[str, int, list[str]]] = []
    last = -1
    for number, line, info in _parted(text):
        if info is None:
            continue
        if number == last + 1 and found[-1][0] == info:
            found[-1][2].append(line)
        else:
            found.append((info, number, [line]))
        last = number
    return [Block(info, "\n".join(lines) + "\n", line) for info, line, lines in found]


def with_links(text: str, change: Callable[[str], str]) -> str:
    """The page with ``change(target)`` in the place of the target of each link and picture.

    Code, and links to elsewhere (``https:``), stay as they are.
    """
    lines = text.splitlines(keepends=True)
    for number, line, info in _parted(text):
        indented = line.startswith("    ") and _stands_alone(lines, number)
        if info is None and not indented:
            ending = lines[number - 1][len(line) :]
            lines[number - 1] = _line_with_links(line, change) + ending
    return "".join(lines)


def _stands_alone(lines: list[str], number: int) -> bool:
    """Whether an indented line is code: an empty or indented line comes before it."""
    return number == 1 or not lines[number - 2].strip() or lines[number - 2].startswith("    ")


def _line_with_links(line: str, change: Callable[[str], str]) -> str:
    spans = [found.span() for found in _CODE_SPAN.finditer(line)]

    def put(found: re.Match[str]) -> str:
        inside = any(begin <= found.start() and found.end() <= end for begin, end in spans)
        if inside or _ELSEWHERE.match(found[2]):
            return found[0]
        return f"{found[1]}{change(found[2])}{found[3]}"

    return _LINK.sub(put, line)


def links(text: str) -> list[str]:
    """The targets of a page's links and pictures, those to elsewhere left out."""
    found: list[str] = []

    def note(target: str) -> str:
        found.append(target)
        return target

    with_links(text, note)
    return found


def slug(heading: str) -> str:
    """The anchor of a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[`*]", "", text)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """The anchors of all headings. The second of two equal ones has ``-1`` behind it, and so on."""
    found: set[str] = set()
    for _, line, info in _parted(text):
        heading = _HEADING.match(line) if info is None else None
        if heading:
            name = plain = slug(heading[1])
            number = 0
            while name in found:
                number += 1
                name = f"{plain}-{number}"
            found.add(name)
    return found
