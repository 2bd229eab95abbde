"""Lowering rules, kernel specs, and machine code. Rules are imported when a model has a layer that they are for."""
