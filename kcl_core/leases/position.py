"""Positions in a shard: sequence number and sub-sequence number, and KCL's four sentinels."""

from dataclasses import dataclass
from functools import total_ordering
from typing import ClassVar, Self

# KCL: ExtendedSequenceNumber; sentinels sort below all digits, SHARD_END above.
_SENTINEL_RANK = {"AT_TIMESTAMP": -3, "TRIM_HORIZON": -2, "LATEST": -1}
SHARD_END_NAME = "SHARD_END"


@total_ordering
@dataclass(frozen=True, slots=True)
class ExtendedSequenceNumber:
    """A record's place in its shard, or a sentinel.

    Equality is of text and sub-sequence number; order is numeric, with
    AT_TIMESTAMP < TRIM_HORIZON < LATEST < any number < SHARD_END.

    Attributes:
        sequence_number: decimal digits of any length (1, 30 and 56 occur), or a sentinel.
        sub_sequence_number: index of the user record within a KPL aggregate, from 0.
    """

    sequence_number: str
    sub_sequence_number: int = 0

    TRIM_HORIZON: ClassVar[Self]
    LATEST: ClassVar[Self]
    AT_TIMESTAMP: ClassVar[Self]
    SHARD_END: ClassVar[Self]

    def __post_init__(self) -> None:
        text = self.sequence_number
        if not (text.isascii() and text.isdigit()) and text not in _SENTINEL_RANK and text != SHARD_END_NAME:
            message = f"{text!r} is neither a sequence number nor one of TRIM_HORIZON, LATEST, AT_TIMESTAMP, SHARD_END"
            raise ValueError(message)
        if self.sub_sequence_number < 0:
            message = f"sub-sequence number {self.sub_sequence_number} is negative"
            raise ValueError(message)

    @property
    def is_sentinel(self) -> bool:
        """Whether this is a place in no particular record."""
        return not self.sequence_number.isdigit()

    @property
    def is_shard_end(self) -> bool:
        """Whether everything in the shard is done."""
        return self.sequence_number == SHARD_END_NAME

    def __lt__(self, other: Self) -> bool:
        return self._order() < other._order()

    def __str__(self) -> str:
        return (
            f"{self.sequence_number}/{self.sub_sequence_number}" if self.sub_sequence_number else self.sequence_number
        )

    def _order(self) -> tuple[bool, int, int]:
        if self.is_shard_end:
            return (True, 0, 0)
        value = _SENTINEL_RANK.get(self.sequence_number)
        return (False, int(self.sequence_number) if value is None else value, self.sub_sequence_number)


ExtendedSequenceNumber.TRIM_HORIZON = ExtendedSequenceNumber("TRIM_HORIZON")
ExtendedSequenceNumber.LATEST = ExtendedSequenceNumber("LATEST")
ExtendedSequenceNumber.AT_TIMESTAMP = ExtendedSequenceNumber("AT_TIMESTAMP")
ExtendedSequenceNumber.SHARD_END = ExtendedSequenceNumber(SHARD_END_NAME)
