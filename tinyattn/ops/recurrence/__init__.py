"""States that are carried from token to token."""
