"""Stream rules: what a model must not write, and what it is told when it does."""
