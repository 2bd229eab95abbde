"""Lowering rules are imported when a model has one of their layers: they have to be where they are looked for."""

from __future__ import annotations

import importlib
import pkgutil

from kuiperinfer import codegen
from kuiperinfer.codegen.lowering import _RULES, RULE_FILES, rule_of


def test_all_rules_stand_where_they_are_looked_for() -> None:
    files = [module.name for module in pkgutil.iter_modules(codegen.__path__)]
    for name in files:
        importlib.import_module(f"kuiperinfer.codegen.{name}")
    assert len(_RULES) > 60
    for layer, rule in _RULES.items():
        family = layer.__module__.rpartition(".")[2]
        assert rule.lower.__module__.rpartition(".")[2] in RULE_FILES.get(family, (family,)), layer
    assert {name for names in RULE_FILES.values() for name in names} <= set(files)


def test_there_is_no_rule_for_what_is_no_layer() -> None:
    assert rule_of(None) is None
