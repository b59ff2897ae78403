"""``python -m squall.sim.programs.page > docs/programs.md`` writes the page about programs.

Everything in its tables is from the docstrings, and the words ``about``, of what is declared: a new
kind of operation, a new story or a new word of a field is there when the page is written anew.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

import squall.sim.programs.stories.play  # noqa: F401  registers the stories that programs have
from squall.model.program import stories
from squall.model.program.acts.act import Act
from squall.model.program.acts.kind import kinds as act_kinds
from squall.model.program.cargo import Cargo
from squall.model.program.cargo import Part as CargoPart
from squall.model.program.chain import Chain, Link
from squall.model.program.kind import ALWAYS, MANY, Kind
from squall.model.program.operations import KINDS
from squall.model.program.options import Options, all_options
from squall.model.program.program import (
    Backward,
    Ending,
    Input,
    Leaf,
    LeafSleep,
    Op,
    Optimizer,
    Program,
    Sleep,
    Step,
    Trainer,
)
from squall.model.program.stories import Story, StoryKind
from squall.model.program.updates import Updates

#: what programs are made of, from the whole to its parts
PARTS = (
    Program,
    Ending,
    Trainer,
    Step,
    Op,
    Input,
    Backward,
    Optimizer,
    Leaf,
    Sleep,
    LeafSleep,
    Story,
    *(Cargo, CargoPart, Chain, Link, Updates),
)

_TEMPLATES = Environment(
    loader=PackageLoader("squall.sim.programs"),
    trim_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


class Entry(NamedTuple):
    """A row of a table: a name, what it means, and what else there is to know."""

    name: str
    text: str
    more: tuple[str, ...] = ()


class Section(NamedTuple):
    """A table, with a heading and some words before it."""

    title: str
    text: str
    entries: list[Entry]


class Part(NamedTuple):
    """One of :data:`PARTS`: its docstring, and its fields as they are declared."""

    name: str
    text: str
    fields: list[str]


def described(registry: Mapping[str, Any]) -> list[Entry]:
    """A row for each thing that is registered under a name."""
    return [Entry(name, about(thing)) for name, thing in registry.items()]


def by_module(registry: Mapping[str, Any]) -> list[Section]:
    """The same by the modules that declare them, as the ``module`` of each thing says."""
    found: dict[str, Section] = {}
    for name, thing in registry.items():
        title = thing.module.rpartition(".")[2].replace("_", " ")
        text = _text(import_module(thing.module).__doc__)
        section = found.setdefault(title, Section(title, text.partition(". ")[0].rstrip("."), []))
        section.entries.append(Entry(name, about(thing), _more(thing)))
    return list(found.values())


def kind_sections() -> list[Section]:
    """Kinds of operations, by the modules that declare them."""
    found: dict[str, Section] = {}
    for kind in KINDS.values():
        module = inspect.getmodule(kind.sizes if _is_ours(kind.sizes) else kind.run)
        assert module is not None
        title = module.__name__.rpartition(".")[2].replace("_", " ")
        section = found.setdefault(title, Section(title, _text(module.__doc__), []))
        section.entries.append(Entry(kind.name, about(kind), (_of_kind(kind), _drawn_with(kind))))
    return list(found.values())


def story_sections() -> list[Section]:
    """Stories, by the modules that declare them."""
    return by_module({kind.name: kind for kind in stories.kinds()})


def act_sections() -> list[Section]:
    """Kinds of acts, by the modules that declare them."""
    return by_module(act_kinds())


def option_sections() -> list[Section]:
    """What the words mean that fields can have."""
    return [_section_of(options) for options in all_options().values()]


def parts() -> list[Part]:
    """What programs are made of."""
    return [part_of(part) for part in PARTS]


def part_of(declared: type[Any]) -> Part:
    """A class of plain data: what its docstring says, and its fields."""
    said = [_field(each) for each in fields(declared)]
    return Part(declared.__name__, _text(declared.__doc__), said)


def page() -> str:
    """The page in Markdown."""
    return _TEMPLATES.get_template("programs.md").render(
        parts=parts(),
        kinds=kind_sections(),
        act=part_of(Act),
        acts=act_sections(),
        options=option_sections(),
        stories=story_sections(),
    )


# -- words ----------------------------------------------------------------------------------------


def about(thing: Any) -> str:
    """What a declared thing says of itself: its ``about``, or the docstring of what it does."""
    said = getattr(thing, "about", "")
    if not said:
        does = next((getattr(thing, name) for name in _DOES if hasattr(thing, name)), thing)
        said = does.__doc__ or ""
    return _text(said)


#: what a declared thing does, under any of these names
_DOES = ("perform", "run", "do")


def _more(thing: Any) -> tuple[str, ...]:
    """What else there is to know of a declared thing."""
    return (_of_story(thing),) if isinstance(thing, StoryKind) else ()


def _of_kind(kind: Kind) -> str:
    """What else there is to know of a kind of operation."""
    inputs = str(kind.least) if kind.least == kind.most else f"{kind.least} to {kind.most}"
    if kind.most == MANY:
        inputs = "any number of"
    said = [f"{inputs} input{'' if inputs == '1' else 's'}"]
    if kind.outputs > 1:
        said.append(f"{kind.outputs} results")
    if kind.builtin is not None:
        said.append(f"also as `torch.{kind.builtin.__name__}`")
    if kind.takes_table:
        said.append("of a leaf of kind embedding")
    if not kind.exact or kind.cancels:
        said.append("mode float only" if not kind.exact else "mode exact only")
    return ", ".join(said)


def _drawn_with(kind: Kind) -> str:
    """The features of a program that bring it."""
    if kind.takes_table:
        return "embedding"
    words = ["every program" if name == ALWAYS else name for name in kind.features]
    return ", ".join(words)


#: by how often programs are given a story: what the page says of it
_OFTEN = {
    "often": "",
    "rarely": "drawn rarely",
    "alone": "drawn rarely, alone",
    "never": "corpus only",
}


def _of_story(kind: StoryKind) -> str:
    """Who plays a story."""
    said = [_OFTEN[kind.drawn]]
    if kind.port_only:
        said.append(f"port only: {_text(kind.port_only)}")
    if kind.on_torch is not None:
        said.append(f"told otherwise on PyTorch's engine (`{kind.on_torch[0]}`)")
    return "; ".join(word for word in said if word)


def _section_of(options: Options) -> Section:
    entries = [Entry(word, _text(meaning)) for word, meaning in options.words.items()]
    return Section(options.name, _text(options.about), entries)


def _field(field: Any) -> str:
    text = f"{field.name}: {_plain(field.type)}"
    if field.default is not MISSING:
        text += f" = {field.default!r}"
    return text


def _plain(annotation: str) -> str:
    """A type without what is said to pydantic."""

    class Plain(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
                assert isinstance(node.slice, ast.Tuple)
                inside: ast.AST = self.visit(node.slice.elts[0])
                return inside
            return self.generic_visit(node)

    return ast.unparse(Plain().visit(ast.parse(annotation, mode="eval")))


def _is_ours(function: Callable[..., Any]) -> bool:
    return function.__module__.startswith("squall.model.program.kinds.")


def _text(docstring: str | None) -> str:
    """A docstring on one line of a table of Markdown: code as code, without roles."""
    text = " ".join((docstring or "").split())
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text).replace("``", "`")
    return text.replace("|", "\\|")


def rows(entries: Iterable[Entry]) -> str:
    """The entries as rows of Markdown."""
    return "\n".join(
        f"| {' | '.join((f'`{each.name}`', each.text, *each.more))} |".replace("|  |", "| |")
        for each in entries
    )


_TEMPLATES.filters["rows"] = rows


if __name__ == "__main__":
    print(page(), end="")
