"""What mkdocstrings shows of docstrings: Markdown."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object

from squall.properties.site.docstrings import as_markdown


class Docstrings(Extension):
    """Docstrings as :func:`as_markdown` writes them."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
