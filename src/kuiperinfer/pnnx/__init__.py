"""PNNX files: bytes to a graph and back. Knows nothing of computing."""

from .graph import Attribute, Graph, Operand, Operator, Parameter, ParameterValue
from .reader import read
from .source import Readable
from .values import float_to_text, parameter, parse_parameter
from .writer import Writable, to_bytes, to_text, write

__all__ = [
    "Attribute",
    "Graph",
    "Operand",
    "Operator",
    "Parameter",
    "ParameterValue",
    "Readable",
    "Writable",
    "float_to_text",
    "parameter",
    "parse_parameter",
    "read",
    "to_bytes",
    "to_text",
    "write",
]
