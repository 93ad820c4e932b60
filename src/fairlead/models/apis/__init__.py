"""One adapter per provider API, and what the adapters share."""
