"""Opal's JSON-RPC dialect: many sessions in one process, served to one host."""
