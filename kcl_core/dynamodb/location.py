"""Where rows of one kind are. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ENTITY_TYPE = "entityType"
LEASE = "LEASE"

Item = dict[str, Any]
"""A row, or some attributes of one, as DynamoDB's JSON: ``{"leaseCounter": {"N": "7"}}``."""


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A table and which of its rows are meant.

    KCL 3.5 keeps all rows in the lease table, apart by ``entityType``; earlier versions kept three tables.

    Attributes:
        table_name: name of the table.
        key_attribute: its partition key, a string; the tables have no sort key.
        entity_type: value of ``entityType`` that such rows have; None if the table holds nothing else.
    """

    table_name: str
    key_attribute: str
    entity_type: str | None = None

    def key(self, value: str) -> Item:
        """Return the primary key of the row called ``value``."""
        return {self.key_attribute: {"S": value}}

    def holds(self, item: Mapping[str, Any]) -> bool:
        """Whether the row is of this kind. Rows of older versions, without ``entityType``, are leases."""
        if self.entity_type is None:
            return True
        marked: str | None = item.get(ENTITY_TYPE, {}).get("S")
        return marked == self.entity_type or (marked is None and self.entity_type == LEASE)
