"""Kinesis streams as Dagster assets, consumed on Spark by workers that coordinate as KCL 3.x does."""
