"""What every repository shares: the door to DynamoDB."""
