"""Methods that `make generate` writes from the declarations."""
