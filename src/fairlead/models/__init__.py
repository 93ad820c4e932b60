"""Reaching a model: HTTP, one adapter per provider API, the catalog, credentials, and `scripted`.

`connect` gives a `ModelStream` for a model; nothing here is imported before it is needed.

Private: see `fairlead` for the public modules.
"""
