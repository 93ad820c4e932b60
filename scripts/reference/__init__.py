"""The pages of the reference, made from the declarations. `make_reference.py` writes them."""
