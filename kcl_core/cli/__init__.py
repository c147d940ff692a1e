"""The `kcl` command."""
