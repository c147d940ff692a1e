"""Reading Kinesis."""
