"""The duties of the leader."""
