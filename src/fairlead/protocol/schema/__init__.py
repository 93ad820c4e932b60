"""The declarations as JSON Schema and TypeScript.

A process that serves a host imports nothing from here.
"""
