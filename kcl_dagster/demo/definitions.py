"""The demo's Dagster definitions, and the rule which stream `definitions.py` is about."""

import os

import dagster as dg

from kcl_dagster.application import build_kinesis_definitions
from kcl_dagster.demo.assets import carrier_delays
from kcl_dagster.demo.system import APPLICATION, STREAM
from kcl_dagster.settings import config_file, load_settings


def definitions_from_settings() -> dg.Definitions:
    """Return the definitions of the user's stream, or of the demo's where no stream is named.

    A stream is named by `kcl.toml`, by the file that KCL_CONFIG_FILE names, or by KCL_STREAM_NAME. The running demo
    names its own, and takes no notice of a file.
    """
    file = config_file()
    demo = {"application_name": APPLICATION, "stream_name": STREAM}
    named = {name: os.environ[variable] for name in demo if (variable := f"KCL_{name.upper()}") in os.environ}
    if named == demo or (file is None and not named):
        overrides = {name: value for name, value in demo.items() if name not in named}
        settings = load_settings(None, **overrides)
        return dg.Definitions.merge(
            build_kinesis_definitions(settings, overrides=overrides, downstream=[carrier_delays(settings)]),
            # Each step starts a Spark session anyway; a process more for each would be for nothing.
            dg.Definitions(executor=dg.in_process_executor),
        )
    return build_kinesis_definitions(load_settings(file), file=file)
