"""Switches: a threshold or a rule of the package, replaced for the time of a fit.

A switch is named by its module and, after a colon, a constant or function (``"module:NAME"``), or a
keyword of a function or a dataclass whose default it is (``"module:function(keyword)"``).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["switched"]


@contextmanager
def switched(name: str, value: Any) -> Iterator[None]:
    """Run the body with another value of a switch."""
    module, _, inner = name.partition(":")
    attribute, _, keyword = inner.removesuffix(")").partition("(")
    owner = import_module(module)
    before = getattr(owner, attribute)
    if not keyword:
        setattr(owner, attribute, value)
        try:
            yield
        finally:
            setattr(owner, attribute, before)
        return
    function = inspect.unwrap(before.__init__ if inspect.isclass(before) else before)
    kept = function.__defaults__, function.__kwdefaults__
    _set_default(function, keyword, value)
    try:
        yield
    finally:
        function.__defaults__, function.__kwdefaults__ = kept


def _set_default(function: Any, keyword: str, value: Any) -> None:
    """Give a keyword of a function another default."""
    if keyword in (function.__kwdefaults__ or {}):
        function.__kwdefaults__ = function.__kwdefaults__ | {keyword: value}
        return
    parameters = inspect.signature(function).parameters.values()
    named = [each.name for each in parameters if each.default is not inspect.Parameter.empty]
    defaults = list(function.__defaults__ or ())
    defaults[named.index(keyword)] = value
    function.__defaults__ = tuple(defaults)
