"""Writing user records of one lease as Parquet files, one per window, where the table expects its files."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyarrow import fs, parquet

from kcl_core.clock import Clock
from kcl_core.leases.identity import new_version
from kcl_core.streams.kpl import UserRecord
from kcl_dagster.spark.manifest import FileManifest
from kcl_dagster.spark.rows import FILE_SCHEMA, record_batch
from kcl_dagster.spark.windows import Window, WindowGrid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_filesystem(location: str, storage_options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """Return the file system of ``location`` and the root path on it.

    Args:
        location: absolute folder, or s3:// or s3a:// address.
        storage_options: as `SparkPathConfig.storage_options`.
    """
    scheme, separator, path = location.partition("://")
    if not separator:
        return fs.LocalFileSystem(), location
    if scheme not in ("s3", "s3a"):
        return fs.FileSystem.from_uri(location)
    options: dict[str, Any] = {}
    if "AWS_REGION" in storage_options:
        options["region"] = storage_options["AWS_REGION"]
    if "AWS_ENDPOINT_URL" in storage_options:
        options["endpoint_override"] = storage_options["AWS_ENDPOINT_URL"]
    if storage_options.get("AWS_ALLOW_HTTP", "").lower() == "true":
        options["scheme"] = "http"
    return fs.S3FileSystem(**options), path


@dataclass(slots=True)
class _OpenFile:
    path: str
    sink: Any
    writer: parquet.ParquetWriter
    rows: int = 0
    data_bytes: int = 0
    lowest: str = ""
    highest: str = ""
    first_millis: int = 0
    last_millis: int = 0


class WindowFiles:
    """The files that one lease's records go to in one batch; each window's is opened when it gets its first record.

    Names are random: a repeated task writes files of its own, and only those that a commit names are ever read.
    """

    def __init__(
        self, filesystem: fs.FileSystem, root: str, grid: WindowGrid, clock: Clock, *, stream: str, shard_id: str
    ) -> None:
        self._filesystem = filesystem
        self._root = root
        self._grid = grid
        self._clock = clock
        self._stream = stream
        self._shard_id = shard_id
        self._open: dict[Window, _OpenFile] = {}

    def write(self, users: Sequence[UserRecord]) -> None:
        """Append user records, in order.

        Raises:
            OSError: the file system refused; nothing of this batch may be committed.
        """
        by_window: dict[Window, list[tuple[int, UserRecord]]] = {}
        window: Window | None = None
        for user in users:
            millis = round(user.approximate_arrival_timestamp * 1000)
            moment = _EPOCH + timedelta(milliseconds=millis)
            if window is None or not window.start <= moment < window.end:
                window = self._grid.window_at(moment)
            by_window.setdefault(window, []).append((millis, user))
        for window, rows in by_window.items():
            self._write_window(window, rows)

    def close(self) -> tuple[FileManifest, ...]:
        """Complete the files and describe them."""
        manifests = []
        for window, file in self._open.items():
            file.writer.close()
            size = file.sink.tell()
            file.sink.close()
            manifests.append(
                FileManifest(
                    path=file.path,
                    window=window,
                    size=size,
                    rows=file.rows,
                    data_bytes=file.data_bytes,
                    lowest_sequence_number=file.lowest,
                    highest_sequence_number=file.highest,
                    first_arrival=_EPOCH + timedelta(milliseconds=file.first_millis),
                    last_arrival=_EPOCH + timedelta(milliseconds=file.last_millis),
                    written=self._clock.wall(),
                )
            )
        self._open.clear()
        return tuple(manifests)

    def abandon(self) -> None:
        """Let go of the files after the file system refused; no commit will name them, so nobody ever reads them."""
        for file in self._open.values():
            # What is wrong has been said already; a second refusal of the same kind says nothing new.
            with suppress(OSError):
                file.writer.close()
            with suppress(OSError):
                file.sink.close()
        self._open.clear()

    def _write_window(self, window: Window, rows: list[tuple[int, UserRecord]]) -> None:
        file = self._open.get(window) or self._open_file(window)
        users = [user for _, user in rows]
        arrivals = [millis for millis, _ in rows]
        numbers = [user.sequence_number for user in users]
        file.writer.write_batch(record_batch(self._stream, self._shard_id, users))
        first, last = min(arrivals), max(arrivals)
        is_new = file.rows == 0
        file.lowest = min(numbers) if is_new else min(file.lowest, *numbers)
        file.highest = max(file.highest, *numbers)
        file.first_millis = first if is_new else min(file.first_millis, first)
        file.last_millis = max(file.last_millis, last)
        file.rows += len(users)
        file.data_bytes += sum(len(user.data) for user in users)

    def _open_file(self, window: Window) -> _OpenFile:
        path = f"{window.folder}/{self._shard_id}-{new_version()}.parquet"
        if isinstance(self._filesystem, fs.LocalFileSystem):
            self._filesystem.create_dir(f"{self._root}/{window.folder}", recursive=True)
        sink = self._filesystem.open_output_stream(f"{self._root}/{path}")
        file = _OpenFile(path, sink, parquet.ParquetWriter(sink, FILE_SCHEMA, compression="zstd"))
        self._open[window] = file
        return file
