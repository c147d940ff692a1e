"""A Kinesis Client Library 3.x in pure Python: leases, election, assignment, retrieval, checkpoints.

Knows neither Dagster nor Spark, and shares its DynamoDB tables with Java KCL 3.x workers.
"""
