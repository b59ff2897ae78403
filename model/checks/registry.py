"""What must hold for every run: the named properties.

:data:`PROPERTIES` are those of all modules of model/checks/ that have any, in the order of how
directly they tell what broke: a wrong count comes before the wrong gradient that it causes.
:func:`check` asks all of them. A new property is a new module with ``PROPERTIES``, and with a
``RANK`` if it is to come before others.
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.model.discovery import modules_in
from squall.model.events.groups import groups_of
from squall.model.events.run import Property, Run, Violation

#: the rank of a module that declares none: behind all that do
LAST = 1_000_000


def _properties() -> tuple[Property, ...]:
    modules = [
        module
        for module in modules_in("squall.model.checks")
        if module.__name__ != __name__ and hasattr(module, "PROPERTIES")
    ]
    modules.sort(key=lambda module: (getattr(module, "RANK", LAST), module.__name__))
    found: list[Property] = []
    for property in (property for module in modules for property in module.PROPERTIES):
        for other in found:
            if other.name == property.name and _overlap(other, property):
                raise ValueError(f"there are two properties called {property.name!r}")
        found.append(property)
    return tuple(found)


def _overlap(one: Property, other: Property) -> bool:
    """Whether there is an engine that both are for."""
    return not one.engines or not other.engines or bool(one.engines & other.engines)


#: every property
PROPERTIES = _properties()


def check(run: Run, properties: Sequence[Property] = PROPERTIES) -> list[Violation]:
    """Everything that does not hold in a run, of what can be judged of it; nothing, if all is
    well. What events show of a script is asked of each of its groups."""
    groups = groups_of(run)
    found: list[Violation] = []
    for property in properties:
        if not property.judges(run):
            continue
        if property.whole or not (groups or run.rpc_groups.overlapping):
            found += property.check(run)
            continue
        for group in groups:
            found += map(group.of_the_whole, property.check(group.run))
    return found


def named_property(name: str, engine: str = "port") -> Property:
    """The property of that name on an engine. Raises KeyError, which says what names there are."""
    for property in PROPERTIES:
        if property.name == name and property.is_for(engine):
            return property
    known = ", ".join(property.name for property in PROPERTIES if property.is_for(engine))
    raise KeyError(f"there is no property {name!r}, expected one of {known}")
