"""One leader among the workers of an application."""
