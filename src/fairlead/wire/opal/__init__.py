"""Opal's JSON-RPC protocol: many sessions in one process, for one client."""
