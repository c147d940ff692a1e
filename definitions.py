"""What Dagster loads: the stream named by `kcl.toml` or `KCL_*` in the environment, else the demo's."""

from kcl_dagster.demo.definitions import definitions_from_settings

defs = definitions_from_settings()
