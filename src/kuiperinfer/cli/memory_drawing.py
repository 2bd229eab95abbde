"""A memory plan as a picture: time from left to right, a step a column; addresses from bottom to top; a box a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from .drawing import colours_of, without_control_characters

if TYPE_CHECKING:
    from ..runtime.plan import Plan
    from ..runtime.plan_text import PlacedBuffer

_MARGIN, _LEFT, _BOTTOM = 20, 90, 40
_HEIGHT = 480
_CURVE = "#c0392b"


def memory_svg(plan: Plan, buffers: Sequence[PlacedBuffer]) -> str:
    """The plan as a stand-alone SVG picture. The line is what is alive in each step; pointing at a box tells what it is."""
    from .console import bytes_text

    steps, size = max(1, len(plan.steps)), max(1, plan.memory.nbytes)
    column = max(4.0, min(24.0, 1200 / steps))
    width, height = _LEFT + steps * column + _MARGIN, _HEIGHT + _MARGIN + _BOTTOM

    def x(step: int) -> float:
        return _LEFT + step * column

    def y(address: int) -> float:
        return _MARGIN + _HEIGHT * (1 - address / size)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for buffer in buffers:
        life = buffer.lifetime
        fill, outline = colours_of(plan.steps[life.first].operator.type)
        left, right, top = x(life.first), x(life.last + 1), y(buffer.offset + life.padded)
        title = f"{buffer.name}: {life.nbytes:,} bytes at {buffer.offset:,}, steps {life.first} to {life.last}"
        parts.append(
            f"<g><title>{escape(without_control_characters(title))}</title>"
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
            f'height="{y(buffer.offset) - top:.2f}" fill="{fill}" stroke="{outline}" stroke-width="0.5"/></g>'
        )
    parts.append(_curve([(x(step), y(alive)) for step, alive in enumerate(_alive(buffers, steps))], column))
    for part in range(5):
        address = size * part // 4
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y(address) + 4:.1f}" text-anchor="end" fill="#505050">{bytes_text(address)}</text>'
        )
    apart = next((apart for apart in (1, 2, 5, 10, 20, 50, 100, 200, 500) if apart * column >= 40), 1000)
    for step in range(0, steps, apart):
        parts.append(f'<text x="{x(step):.1f}" y="{_MARGIN + _HEIGHT + 16}" fill="#505050">{step}</text>')
    caption = (
        f"arena {bytes_text(plan.memory.nbytes)}, at most {bytes_text(plan.memory.lower_bound)} alive at once (line)"
    )
    parts.append(f'<text x="{_LEFT}" y="{_MARGIN + _HEIGHT + 32}" fill="{_CURVE}">steps; {escape(caption)}</text>')
    return "\n".join([*parts, "</svg>"])


def _alive(buffers: Sequence[PlacedBuffer], steps: int) -> list[int]:
    """Bytes that are alive in each step."""
    alive = [0] * steps
    for buffer in buffers:
        for step in range(buffer.lifetime.first, buffer.lifetime.last + 1):
            alive[step] += buffer.lifetime.padded
    return alive


def _curve(points: Sequence[tuple[float, float]], column: float) -> str:
    """A line of stairs, a step each."""
    path = " ".join(f"L{x:.1f},{y:.2f} L{x + column:.1f},{y:.2f}" for x, y in points)
    return f'<path d="M{path[1:]}" fill="none" stroke="{_CURVE}" stroke-width="1.5"/>'
