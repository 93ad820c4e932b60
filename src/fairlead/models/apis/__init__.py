"""One adapter per provider API, and what the adapters share.

An adapter turns a request into HTTP (`request_building`, `sendable_history`), sends it (`sending`) and builds a message from
the events of the response (`response_reading`). `adapter` ties these together.
"""
