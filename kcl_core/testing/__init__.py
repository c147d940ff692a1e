"""AWS embedded in a test or a laptop: our Kinesis, and moto for DynamoDB."""
