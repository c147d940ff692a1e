"""Reading one shard by GetRecords, from a position on, within limits."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from kcl_core.clock import Clock
from kcl_core.errors import ExpiredIteratorError
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import GetRecordsAnswer, IteratorPosition, KinesisApi, StreamAddress
from kcl_core.streams.kpl import UserRecord


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Where a read stops at the latest; the last answer may overshoot the first two.

    The record at the start position, which is read again, does not count: a read goes on until it has seen more.

    Attributes:
        max_records: Kinesis records.
        max_bytes: bytes of their data.
        deadline: monotonic second after which no further call is made.
        records_per_call: 1 .. 10,000.
    """

    max_records: int
    max_bytes: int
    deadline: float
    records_per_call: int = 10_000

    def are_reached(self, records: int, size: int, now: float) -> bool:
        """Whether a read that took so many records and bytes by monotonic second ``now`` stops."""
        return records >= self.max_records or size >= self.max_bytes or now >= self.deadline


def read_pages(
    kinesis: KinesisApi,
    stream: StreamAddress,
    shard_id: str,
    start: ExtendedSequenceNumber,
    *,
    limits: ReadLimits,
    clock: Clock,
    timestamp: datetime | None = None,
    shard_iterator: str | None = None,
) -> Iterator[GetRecordsAnswer]:
    """Yield answers of one shard until its tip or end, or a limit, is reached; at least one.

    A read from a sequence number begins with that record itself, because the position may lie within an
    aggregate (KCL: KinesisDataFetcher); `behind` removes what is before the position.

    Args:
        kinesis: where to read, a shard of ``stream``.
        stream: its address.
        shard_id: which shard.
        start: the position to go on behind; not SHARD_END.
        limits: where to stop, by ``clock``.
        clock: for the deadline.
        timestamp: for ``start`` AT_TIMESTAMP, aware.
        shard_iterator: continues exactly behind ``start``; saves a call. May have expired.

    Raises:
        StreamThrottledError: the shard's quota is used up for now; what was yielded before stays good.
        StreamGoneError: the stream or the shard does not exist (any more).
    """
    position, iterator = _iterator_position(start, timestamp), shard_iterator
    records = size = 0
    while True:
        answer = _get_records(kinesis, stream, shard_id, (iterator, position), limits.records_per_call)
        yield answer
        if answer.next_shard_iterator is None or answer.millis_behind_latest == 0:
            return
        new = [record for record in answer.records if record.sequence_number != start.sequence_number]
        records += len(new)
        size += sum(len(record.data) for record in new)
        # Records of 10 MiB fill an answer alone: to stop at the one at the start would be to read it for ever.
        if (new or not answer.records) and limits.are_reached(records, size, clock.monotonic()):
            return
        if answer.records:
            position = IteratorPosition("AFTER_SEQUENCE_NUMBER", answer.records[-1].sequence_number)
        iterator = answer.next_shard_iterator


def behind(users: Iterable[UserRecord], start: ExtendedSequenceNumber) -> list[UserRecord]:
    """Return the user records behind ``start``, in order; all of them if ``start`` is no record's place."""
    if start.is_sentinel:
        return list(users)
    place = (int(start.sequence_number), start.sub_sequence_number)
    return [user for user in users if (int(user.sequence_number), user.sub_sequence_number) > place]


def _get_records(
    kinesis: KinesisApi, stream: StreamAddress, shard_id: str, place: tuple[str | None, IteratorPosition], limit: int
) -> GetRecordsAnswer:
    """Read by the iterator, or from the position if there is none that is still good."""
    iterator, position = place
    if iterator is not None:
        try:
            return kinesis.get_records(stream, iterator, limit)
        except ExpiredIteratorError:
            pass  # after five minutes, or if somebody else made it
    return kinesis.get_records(stream, kinesis.get_shard_iterator(stream, shard_id, position), limit)


def _iterator_position(start: ExtendedSequenceNumber, timestamp: datetime | None) -> IteratorPosition:
    match start.sequence_number:
        case "TRIM_HORIZON":
            return IteratorPosition("TRIM_HORIZON")
        case "LATEST":
            return IteratorPosition("LATEST")
        case "AT_TIMESTAMP":
            if timestamp is None:
                message = "a read from AT_TIMESTAMP needs the timestamp"
                raise ValueError(message)
            return IteratorPosition("AT_TIMESTAMP", timestamp=timestamp)
        case "SHARD_END":
            message = "nothing follows SHARD_END"
            raise ValueError(message)
        case number:
            return IteratorPosition("AT_SEQUENCE_NUMBER", number)
