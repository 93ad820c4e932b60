"""HTTP/1.1 to model servers: `client` keeps connections and sends requests; responses are streamed.

`connection` is one connection, `exchange` one request and its response, `framing` the body of a response, `sse` the events in
it, `proxy` the choice of a proxy.
"""
