"""The data path on Spark. Imports no Dagster: it runs on executors too."""
