"""Writes src/kuiperinfer/layers/index.py: which family of layers registers which operator types. Run it after adding one."""

from __future__ import annotations

import importlib
import pkgutil
import textwrap
from collections import defaultdict
from pathlib import Path

import kuiperinfer.layers
from kuiperinfer.layers import registered

TEMPLATE = '''"""Which family, a file here, registers which operator types: it is imported when a model has one of them.

Written by scripts/index_layers.py; a test compares it with what the families register.
"""

FAMILIES: dict[str, list[str]] = {{}}  # family -> operator types

_TEXT = """\\
{text}
"""

for _paragraph in _TEXT.replace("\\n    ", " ").splitlines():
    _family, _, _types = _paragraph.partition(": ")
    FAMILIES[_family] = _types.split()
'''


def index_text() -> str:
    """The content of the file, from what the families register when all are imported."""
    families: dict[str, list[str]] = defaultdict(list)
    for module in pkgutil.iter_modules(kuiperinfer.layers.__path__, "kuiperinfer.layers."):
        importlib.import_module(module.name)
    for name in registered():
        registration = registered().get(name)  # none for what an older index says
        room, _, family = registration.layer.__module__.rpartition(".") if registration else ("", "", "")
        if room == "kuiperinfer.layers":
            families[family].append(name)
    paragraphs = [f"{family}: {' '.join(sorted(names))}" for family, names in sorted(families.items())]
    wrap = textwrap.TextWrapper(120, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return TEMPLATE.format(text="\n".join(map(wrap.fill, paragraphs)))


if __name__ == "__main__":
    (Path(__file__).parents[1] / "src" / "kuiperinfer" / "layers" / "index.py").write_text(index_text(), "utf-8")
