"""Prompt texts: static ones come first in every prompt, the question last, so that prompts share their beginnings."""

from __future__ import annotations

from functools import cache
from importlib import resources
from string import Template


@cache
def prompt(name: str) -> Template:
    """The text `name`.txt of this package. `$word` stands for what is filled in, once: nothing in it is expanded."""
    text = resources.files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return Template(text.strip())
