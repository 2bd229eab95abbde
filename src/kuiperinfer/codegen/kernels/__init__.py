"""Kernels, one idea a file: a spec, and the loops that it stands for."""
