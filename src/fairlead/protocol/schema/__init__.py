"""The declarations as documents for other languages: JSON Schema and TypeScript.

Nothing here is needed to serve a host, and nothing here is imported then.
"""
