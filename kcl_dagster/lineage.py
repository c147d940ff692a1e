"""What a materialization says of where its rows came from."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import dagster as dg

from kcl_core.leases.model import Lease
from kcl_dagster.spark.manifest import FileManifest, ShardManifest
from kcl_dagster.spark.windows import Window

SHARD_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("shard", "string"),
        dg.TableColumn("parents", "string", description="shards that it continues"),
        dg.TableColumn("rows", "int", description="user records"),
        dg.TableColumn("bytes", "int", description="of the user records' data"),
        dg.TableColumn("files", "int"),
        dg.TableColumn("first arrival", "string", description="UTC"),
        dg.TableColumn("last arrival", "string", description="UTC"),
        dg.TableColumn("lease counter", "int", description="of the lease when its last batch was prepared"),
        dg.TableColumn("behind latest (ms)", "int", description="age of the position read up to, against the tip"),
        dg.TableColumn("first sequence number", "string"),
        dg.TableColumn("last sequence number", "string"),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLineage:
    """What one shard brought into one window.

    Attributes:
        parents: ids of the shards that it continues, sorted.
        first_sequence_number: least in text order, which within one shard is that of the numbers.
        last_sequence_number: greatest in text order.
        rows: user records.
        data_bytes: bytes of their data.
        files: data files.
        lease_counter: of the lease when its last batch was prepared.
        millis_behind_latest: after the last batch; None if not known.
    """

    shard_id: str
    parents: tuple[str, ...]
    first_sequence_number: str
    last_sequence_number: str
    rows: int
    data_bytes: int
    files: int
    first_arrival: datetime
    last_arrival: datetime
    lease_counter: int
    millis_behind_latest: int | None

    def followed_by(self, later: "ShardLineage") -> "ShardLineage":
        """Return both as one; ``later`` is of the same shard and window."""
        return replace(
            later,
            first_sequence_number=min(self.first_sequence_number, later.first_sequence_number),
            last_sequence_number=max(self.last_sequence_number, later.last_sequence_number),
            rows=self.rows + later.rows,
            data_bytes=self.data_bytes + later.data_bytes,
            files=self.files + later.files,
            first_arrival=min(self.first_arrival, later.first_arrival),
            last_arrival=max(self.last_arrival, later.last_arrival),
        )


@dataclass(frozen=True, slots=True)
class WindowLineage:
    """What one worker committed into one window since it last said so.

    Attributes:
        shards: by shard id.
        versions: first and last version of the table that has some of it.
        batches: commits that it came in.
    """

    window: Window
    shards: dict[str, ShardLineage]
    versions: tuple[int, int]
    batches: int = 1

    def followed_by(self, later: "WindowLineage") -> "WindowLineage":
        """Return both as one; ``later`` is of the same window."""
        shards = dict(self.shards)
        for shard_id, shard in later.shards.items():
            shards[shard_id] = shards[shard_id].followed_by(shard) if shard_id in shards else shard
        return WindowLineage(self.window, shards, (self.versions[0], later.versions[1]), self.batches + later.batches)


def lineage_of_commit(committed: Iterable[tuple[Lease, ShardManifest]], version: int) -> dict[Window, WindowLineage]:
    """Return what one commit brought, by window.

    Args:
        committed: each lease as it was prepared, with what was read of it.
        version: of the table.
    """
    windows: dict[Window, WindowLineage] = {}
    for lease, manifest in committed:
        for file in manifest.files:
            one = WindowLineage(
                file.window, {manifest.shard_id: _of_file(lease, manifest, file)}, (version, version), 0
            )
            windows[file.window] = windows[file.window].followed_by(one) if file.window in windows else one
    return {window: replace(lineage, batches=1) for window, lineage in windows.items()}


def _of_file(lease: Lease, manifest: ShardManifest, file: FileManifest) -> ShardLineage:
    return ShardLineage(
        shard_id=manifest.shard_id,
        parents=tuple(sorted(lease.parent_shard_ids)),
        first_sequence_number=file.lowest_sequence_number,
        last_sequence_number=file.highest_sequence_number,
        rows=file.rows,
        data_bytes=file.data_bytes,
        files=1,
        first_arrival=file.first_arrival,
        last_arrival=file.last_arrival,
        lease_counter=lease.lease_counter,
        millis_behind_latest=manifest.millis_behind_latest,
    )


def materialization(
    asset_key: dg.AssetKey, lineage: WindowLineage, *, stream: str, worker_id: str, rows_in_window: int
) -> dg.AssetMaterialization:
    """Return the event that Dagster shows for one window.

    Args:
        asset_key: of the raw table.
        lineage: what is new.
        stream: name of the stream.
        worker_id: who committed it.
        rows_in_window: rows that the window has by now, those of other workers included.
    """
    shards = [lineage.shards[shard_id] for shard_id in sorted(lineage.shards)]
    lags = [shard.millis_behind_latest for shard in shards if shard.millis_behind_latest is not None]
    first, last = min(s.first_arrival for s in shards), max(s.last_arrival for s in shards)
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": rows_in_window,
        "kcl/rows": sum(shard.rows for shard in shards),
        "kcl/bytes": sum(shard.data_bytes for shard in shards),
        "kcl/stream": stream,
        "kcl/worker": worker_id,
        "kcl/shards": dg.MetadataValue.table([_row(shard) for shard in shards], SHARD_COLUMNS),
        "kcl/first arrival": dg.MetadataValue.timestamp(first),
        "kcl/last arrival": dg.MetadataValue.timestamp(last),
        "kcl/behind latest (ms)": max(lags, default=0),
        "kcl/batches": lineage.batches,
        "kcl/files": sum(shard.files for shard in shards),
        "kcl/table version": lineage.versions[1],
        "kcl/first table version": lineage.versions[0],
    }
    return dg.AssetMaterialization(asset_key, partition=lineage.window.partition_key, metadata=metadata)


def _row(shard: ShardLineage) -> dg.TableRecord:
    return dg.TableRecord(
        {
            "shard": shard.shard_id,
            "parents": ", ".join(shard.parents),
            "rows": shard.rows,
            "bytes": shard.data_bytes,
            "files": shard.files,
            "first arrival": f"{shard.first_arrival:%Y-%m-%d %H:%M:%S}",
            "last arrival": f"{shard.last_arrival:%Y-%m-%d %H:%M:%S}",
            "lease counter": shard.lease_counter,
            "behind latest (ms)": shard.millis_behind_latest,
            "first sequence number": shard.first_sequence_number,
            "last sequence number": shard.last_sequence_number,
        }
    )
