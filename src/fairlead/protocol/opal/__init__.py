"""The declarations of Opal's JSON-RPC dialect: methods, requests to the client, events."""
