"""What a client is told when it does not get what it asked for: a status and one sentence."""

from __future__ import annotations

from ..errors import KuiperError, ResourceLimitError

_UNITS = ((1, "s"), (1e3, "ms"), (1e6, "µs"))


class Refusal(KuiperError):
    """A request that is not answered: HTTP `status`, and seconds after which it may be worth another try.

    Too late is 503, as in other servers of this protocol: 504 is for what stands between a server and its clients.
    """

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


def bad_request(message: str) -> Refusal:
    """400: the request itself is wrong."""
    return Refusal(400, message)


def not_found(message: str) -> Refusal:
    """404: there is no such thing here."""
    return Refusal(404, message)


def shutting_down() -> Refusal:
    """503: this server will not come back; another may be there soon."""
    return Refusal(503, "the server is shutting down", retry_after=1)


def too_late(seconds: float) -> Refusal:
    """503: the answer was not ready in time."""
    number, unit = next((seconds * factor, unit) for factor, unit in _UNITS if seconds * factor >= 1 or unit == "µs")
    return Refusal(503, f"no answer within {number:g} {unit}", retry_after=1)


def status_of(error: KuiperError) -> int:
    """The HTTP status that an error of the engine stands for: whatever a model refuses, a request brought."""
    if isinstance(error, Refusal):
        return error.status
    return 413 if isinstance(error, ResourceLimitError) else 400
