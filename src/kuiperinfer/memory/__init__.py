"""Memory for arrays: aligned allocation."""

from __future__ import annotations

from .aligned import ALIGNMENT as ALIGNMENT
from .aligned import align as align
from .aligned import aligned_empty as aligned_empty
from .aligned import lock as lock
