"""Reaching a model: which models exist, their keys, one adapter per provider API, and HTTP.

`registry` knows the models and their keys. `model_streams` opens a `ModelStream` for one of them: an adapter from `apis`,
which sends its requests through `http`. Adapters are imported when a model first needs them.

Private: see `fairlead` for the public modules.
"""
