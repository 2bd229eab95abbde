"""What a model costs, told from its graph and the shapes in it: multiply-adds and memory."""

from .memory import MemoryNeed, memory_need, weight_bytes, weight_count
from .multiply_adds import multiply_adds, total_multiply_adds

__all__ = ["MemoryNeed", "memory_need", "multiply_adds", "total_multiply_adds", "weight_bytes", "weight_count"]
