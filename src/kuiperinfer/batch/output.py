"""The folder that a job writes, and how the job goes on after it was stopped.

    manifest.json               what the results hang on, and its digest
    results/part-00000.parquet  the rows of a part, where any could be read
    finished/00000.json         that the part is finished: its numbers of rows, and the rows that could not be read
    pictures/part-00000/…       annotated pictures, if asked for
    errors.jsonl                at the end, all rows that could not be read

Everything is written under a temporary name and then renamed, the `finished` file of a part last: what is not in it is done
again. A part's content depends on nothing but the job, so that it may even be done twice at the same time.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError

try:
    import fcntl
except ImportError:  # not a Unix: nothing keeps two jobs from one folder
    fcntl = None  # type: ignore[assignment]

_PARTIAL = ".partial"


@dataclass(frozen=True)
class Finished:
    """A finished part: how many rows it has, and those that could not be read (`row`, `source`, `source_row`, `error`).

    `file_bytes` is the size of its Parquet file, None where there is no row in it.
    """

    part: int
    rows: int
    errors: tuple[Mapping[str, Any], ...]
    file_bytes: int | None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"part": self.part, "rows": self.rows, "file_bytes": self.file_bytes, "errors": list(self.errors)}


@dataclass(frozen=True)
class OutputFolder:
    """The folder of a job."""

    path: Path

    def results_file(self, part: int) -> Path:
        """Where the rows of a part stand."""
        return self.path / "results" / f"part-{part:05}.parquet"

    def pictures_folder(self, part: int) -> Path:
        """Where the annotated pictures of a part stand."""
        return self.path / "pictures" / f"part-{part:05}"

    @property
    def errors_file(self) -> Path:
        """Where the rows that could not be read are listed."""
        return self.path / "errors.jsonl"

    @contextmanager
    def opened(self, identity: Mapping[str, Any]) -> Iterator[None]:
        """Makes the folder for a job, or goes on with the same job; nobody else can do so at the same time.

        `identity` is everything that the results hang on. Raises `InputError` where the folder holds something else.
        """
        with ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(self._locked())
                self._begin_or_continue(identity)
            except OSError as error:
                raise InputError(f"{self.path}: cannot be written ({error.strerror or error})") from error
            yield
            self._sweep()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.path / ".lock", "a") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise InputError(f"{self.path}: another kuiper batch is writing to this folder") from None
            yield

    def _begin_or_continue(self, identity: Mapping[str, Any]) -> None:
        manifest = {"identity": identity, "digest": digest_of(identity)}
        if (self.path / "manifest.json").exists():
            self._refuse_other_job(manifest)
        elif others := sorted(name for name in os.listdir(self.path) if not name.startswith(".")):
            raise InputError(
                f"{self.path}: there is '{others[0]}' in it, and no manifest.json of a job; expected an empty folder"
            )
        else:
            write_whole(self.path / "manifest.json", json.dumps(manifest, indent=2, ensure_ascii=False).encode())
        for folder in ("results", "finished"):
            (self.path / folder).mkdir(exist_ok=True)
        self._sweep()

    def _sweep(self) -> None:
        """Removes what workers left who were killed."""
        for left in self.path.rglob(f".*{_PARTIAL}"):
            left.unlink(missing_ok=True)

    def _refuse_other_job(self, manifest: Mapping[str, Any]) -> None:
        try:
            found = json.loads((self.path / "manifest.json").read_text("utf-8"))
            before, digest = dict(found["identity"]), found["digest"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.path / 'manifest.json'}: not the manifest of a job ({error!r})") from error
        if digest == manifest["digest"]:
            return
        now = manifest["identity"]
        names = [name for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
        changes = "; ".join(f"{name} was {_short(before.get(name))}, is {_short(now.get(name))}" for name in names)
        raise InputError(
            f"{self.path}: this folder belongs to another job: {changes or 'its digest is another'}; "
            f"give another --output, or delete the folder"
        )

    def finished(self, part: int) -> Finished | None:
        """What is known of a finished part; None where it is still to be done."""
        try:
            data = json.loads(self._record(part).read_text("utf-8"))
            found = Finished(data["part"], data["rows"], tuple(data["errors"]), data["file_bytes"])
            if found.file_bytes is not None and self.results_file(part).stat().st_size != found.file_bytes:
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found

    def finish(self, done: Finished) -> None:
        """Declares a part finished, whose files are in place."""
        with whole(
            self._record(done.part), sync=False
        ) as partial:  # a record that is lost costs its part, which is done again
            partial.write_text(json.dumps(done.to_dict(), ensure_ascii=False), "utf-8")
        self._attempts(done.part).unlink(missing_ok=True)

    def count_attempt(self, part: int) -> int:
        """How often a part was begun in this run of the job, this time included: workers may be lost in the middle of it."""
        with open(self._attempts(part), "ab") as file:
            file.write(b".")
            return file.tell()

    def _attempts(self, part: int) -> Path:
        return self.path / "finished" / f".{part:05}.attempts{_PARTIAL}"

    def _record(self, part: int) -> Path:
        return self.path / "finished" / f"{part:05}.json"

    def write_errors(self, parts: Iterator[Finished]) -> int:
        """Lists all rows that could not be read, in order, in `errors_file`, if there are any; returns how many."""
        count = 0
        with whole(self.errors_file) as partial, open(partial, "w", encoding="utf-8") as file:
            for part in parts:
                for error in part.errors:
                    count += 1
                    file.write(json.dumps(error, ensure_ascii=False) + "\n")
        if not count:
            self.errors_file.unlink()
        return count


def _short(value: Any) -> str:
    text = "not given" if value is None else str(value)
    return text if len(text) <= 60 else text[:12] + "…"


def digest_of(data: Any) -> str:
    """SHA-256 of plain data."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


@contextmanager
def whole(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A temporary name beside `path`: what is written there appears under `path` as a whole, or not at all.

    Without `sync`, that holds when processes are killed, but not when the machine loses its power.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}{_PARTIAL}")
    try:
        yield partial
        if sync:
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file that appears as a whole, or not at all."""
    with whole(path) as partial:
        partial.write_bytes(content)
