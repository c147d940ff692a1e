"""The embedded Kinesis."""
