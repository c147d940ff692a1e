"""The names under which Dagster knows what is ours: run tags and asset keys."""

import dagster as dg

ROLE_TAG = "kcl/role"
"""``worker`` or ``leader``."""

REASON_TAG = "kcl/reason"
"""Why a sensor asked for the run."""

SLOT_TAG = "kcl/slot"
"""The place in the fleet that a worker run fills, from 0."""

WORKER_TAG = "kcl/worker"
"""The worker id of a worker run: its lease owner in DynamoDB."""


def stream_key(stream_name: str) -> dg.AssetKey:
    """Return the key of the stream itself."""
    return dg.AssetKey(["kinesis", stream_name])


def raw_table_key(stream_name: str) -> dg.AssetKey:
    """Return the key of the table that the stream's records land in."""
    return dg.AssetKey([stream_name, "records"])
