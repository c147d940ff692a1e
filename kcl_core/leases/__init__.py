"""The leases: rows, renewal, discovery, expiry and cleanup."""
