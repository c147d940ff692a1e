"""The same components under virtual time."""
