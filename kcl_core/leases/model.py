"""The lease: who reads a shard, and from where. Values only."""

from dataclasses import dataclass

from kcl_core.leases.position import ExtendedSequenceNumber


@dataclass(frozen=True, slots=True, order=True)
class HashKeyRange:
    """The partition key hashes that a shard takes, both ends included.

    Attributes:
        starting: 0 .. 2**128 - 1.
        ending: 0 .. 2**128 - 1, not below ``starting``.
    """

    starting: int
    ending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One row of the lease table.

    Attributes:
        lease_key: shard id; ``account:stream:epoch:shardId`` in multi-stream mode.
        lease_owner: worker id of the owner, or of the next owner during a handoff; None if unassigned.
        lease_counter: grows with every renewal, assignment and checkpoint; unchanged means the owner is silent.
        checkpoint_owner: worker that still drains the shard during a graceful handoff, else None.
        owner_switches_since_checkpoint: changes of owner since the last checkpoint.
        checkpoint: everything up to here is durable.
        pending_checkpoint: a prepared checkpoint whose fate is not yet known, else None.
        pending_checkpoint_state: application bytes stored with it.
        parent_shard_ids: shards whose records come before this one's.
        child_shard_ids: shards that continue this one; empty until known.
        hash_key_range: partition key hashes of the shard; None if the row has none.
        throughput_kbps: KiB/s, moving average written with renewals; None until first measured.
        stream_name: serialised stream identifier in multi-stream mode, else None.
        multi_stream_shard_id: bare shard id in multi-stream mode, else None.
    """

    lease_key: str
    lease_owner: str | None = None
    lease_counter: int = 0
    checkpoint_owner: str | None = None
    owner_switches_since_checkpoint: int = 0
    checkpoint: ExtendedSequenceNumber
    pending_checkpoint: ExtendedSequenceNumber | None = None
    pending_checkpoint_state: bytes | None = None
    parent_shard_ids: frozenset[str] = frozenset()
    child_shard_ids: frozenset[str] = frozenset()
    hash_key_range: HashKeyRange | None = None
    throughput_kbps: float | None = None
    stream_name: str | None = None
    multi_stream_shard_id: str | None = None

    @property
    def shard_id(self) -> str:
        """The shard that this lease is for."""
        return self.multi_stream_shard_id or self.lease_key

    @property
    def actual_owner(self) -> str | None:
        """The worker that may read and checkpoint now (KCL: Lease.actualOwner)."""
        return self.checkpoint_owner or self.lease_owner

    @property
    def is_finished(self) -> bool:
        """Whether the shard was read to its end."""
        return self.checkpoint.is_shard_end
