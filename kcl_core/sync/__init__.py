"""Which leases should exist."""
