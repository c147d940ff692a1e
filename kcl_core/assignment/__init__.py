"""Who should hold which lease."""
