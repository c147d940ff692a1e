"""The demo's Dagster definitions, and the rule which stream `definitions.py` is about."""

import os

import dagster as dg

from kcl_dagster.application import build_kinesis_definitions
from kcl_dagster.demo.assets import carrier_delays
from kcl_dagster.demo.system import APPLICATION, STREAM
from kcl_dagster.settings import config_file, load_settings


def definitions_from_settings() -> dg.Definitions:
    """Return the definitions of the user's stream, or of the demo's where no stream is named.

    A stream is named by `kcl.toml`, by the file that KCL_CONFIG_FILE names, or by KCL_STREAM_NAME.
    """
    file = config_file()
    stream = os.environ.get("KCL_STREAM_NAME")
    if file is None and stream in (None, STREAM):
        demo = {"application_name": APPLICATION, "stream_name": STREAM}
        overrides = {name: value for name, value in demo.items() if f"KCL_{name.upper()}" not in os.environ}
        settings = load_settings(None, **overrides)
        return dg.Definitions.merge(
            build_kinesis_definitions(settings, overrides=overrides, downstream=[carrier_delays(settings)]),
            # Each step starts a Spark session anyway; a process more for each would be for nothing.
            dg.Definitions(executor=dg.in_process_executor),
        )
    return build_kinesis_definitions(load_settings(file), file=file)
