"""The records of one shard, kept as the JSON that GetRecords answers with, so that an answer is a join."""

from bisect import bisect_left, bisect_right

import msgspec

from kcl_core.testing.kinesis.sequence import sequence_number

MAX_ANSWER_BYTES = 10 * 1024 * 1024


class RecordLog:
    """Append-only, cut off at the front by retention.

    A position counts records from the shard's start, so it survives the cutting.
    """

    def __init__(self, base: int) -> None:
        self._base = base
        self._first = 0
        self._fragments: list[bytes] = []
        self._sequences: list[int] = []
        self._arrivals: list[int] = []
        self._ends: list[int] = []
        """Bytes (data and keys) of all records since the shard's start, this one included."""
        self._trimmed = 0

    @property
    def first(self) -> int:
        """Position of the oldest record still kept."""
        return self._first

    @property
    def end(self) -> int:
        """Position that the next record will get."""
        return self._first + len(self._fragments)

    def append(self, data: str, partition_key: str, size: int, now: int) -> str:
        """Add a record and return its sequence number.

        Args:
            data: base64, already checked.
            partition_key: as the client gave it.
            size: bytes of the decoded data and the partition key.
            now: arrival, epoch milliseconds; never earlier than the last record's.
        """
        number = sequence_number(self._base, self.end + 1, now // 1000)
        text = str(number)
        key = msgspec.json.encode(partition_key).decode()
        head = (
            f'{{"SequenceNumber":"{text}","ApproximateArrivalTimestamp":{now / 1000:.3f},"PartitionKey":{key},"Data":"'
        )
        self._fragments.append(f'{head}{data}"}}'.encode())
        self._sequences.append(number)
        self._arrivals.append(now)
        self._ends.append((self._ends[-1] if self._ends else self._trimmed) + size)
        return text

    def read(self, position: int, limit: int) -> tuple[bytes, int]:
        """Return the JSON of up to ``limit`` records from ``position`` on, and the position after them.

        Stops at 10 MiB (GetRecords' limit), but gives at least one record.
        """
        start = max(position - self._first, 0)
        stop = min(start + limit, len(self._fragments))
        if start >= stop:
            return b"", max(position, self._first)
        before = self._ends[start - 1] if start else self._trimmed
        fitting = bisect_right(self._ends, before + MAX_ANSWER_BYTES, start, stop)
        stop = max(fitting, start + 1)
        return b",".join(self._fragments[start:stop]), self._first + stop

    def size(self, start: int, stop: int) -> int:
        """Return the bytes of the records at positions ``start`` to ``stop``, the latter excluded."""
        low, high = max(start, self._first) - self._first, stop - self._first
        if high <= low:
            return 0
        return self._ends[high - 1] - (self._ends[low - 1] if low else self._trimmed)

    def arrival(self, position: int) -> int:
        """Return when the record at ``position`` arrived, epoch milliseconds; it must still be kept."""
        return self._arrivals[position - self._first]

    def sequence(self, position: int) -> int:
        """Return the sequence number of the record at ``position``; it must still be kept."""
        return self._sequences[position - self._first]

    def at_sequence(self, number: int) -> int:
        """Return the position of the first record whose number is ``number`` or higher."""
        return self._first + bisect_left(self._sequences, number)

    def after_sequence(self, number: int) -> int:
        """Return the position of the first record whose number is higher than ``number``."""
        return self._first + bisect_right(self._sequences, number)

    def at_time(self, millis: int) -> int:
        """Return the position of the first record that arrived at ``millis`` or later."""
        return self._first + bisect_left(self._arrivals, millis)

    def trim(self, horizon: int) -> None:
        """Drop what arrived before ``horizon``, epoch milliseconds."""
        if not self._arrivals or self._arrivals[0] >= horizon:
            return
        count = bisect_left(self._arrivals, horizon)
        self._trimmed = self._ends[count - 1]
        del self._fragments[:count], self._sequences[:count], self._arrivals[:count], self._ends[:count]
        self._first += count
