"""HTTP/1.1 to model servers: connections, requests, streamed responses."""
