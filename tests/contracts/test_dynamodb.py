"""The contract of lease tables, asked of moto's DynamoDB behind our lock."""

import pytest

from kcl_core.leases.table import LeaseTable
from kcl_core.testing.contracts import LeaseTableContract

pytestmark = pytest.mark.contract


class TestEmbeddedDynamoDb(LeaseTableContract):
    @pytest.fixture
    def tables(self, lease_tables: list[LeaseTable]) -> list[LeaseTable]:
        return lease_tables
