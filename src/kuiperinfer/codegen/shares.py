"""Into how many tasks the work of a step is cut: enough for several threads to have the same, few enough to cost nothing."""

from __future__ import annotations

_CLAIM = 0.1  # microseconds to claim a task and to begin with it
TEAMS = (1, 2, 4, 8)  # numbers of threads that shall all be served well


def team_time(tasks: int, microseconds: float) -> float:
    """Thread time that so many tasks of a length take, waiting included, summed up over teams of different sizes."""
    return sum(members * -(-tasks // members) * (microseconds + _CLAIM) for members in TEAMS)


def share(units: int, unit_microseconds: float, sets: int = 1, grain: int = 1, most: int | None = None) -> int:
    """How many of `units` a task takes, a multiple of `grain`, where there are `sets` independent times `units` of work.

    The number for which teams of different sizes finish soonest, by a model of their time; at most `most` units.
    """
    grains = -(-units // grain)
    limit = grains if most is None else max(1, min(grains, most // grain))
    candidates = {-(-grains // chunks) for chunks in range(1, 65)} | {limit}

    def cost(count: int) -> float:
        return team_time(-(-units // (count * grain)) * sets, count * grain * unit_microseconds)

    return grain * min((count for count in candidates if count <= limit), key=lambda count: (cost(count), -count))
