"""The declarations of Opal's JSON-RPC protocol: methods, requests to the client, events."""
