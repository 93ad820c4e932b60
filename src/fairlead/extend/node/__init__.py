"""Extensions written for pi, in TypeScript or JavaScript.

One Node process runs all of them. `bridge.py` starts it and carries calls both ways; `runtime/` is the program that it runs.
`remote.py` adds what such an extension registers to the agent; `requests.py` answers what it asks. `events.py` converts events
and results between our types and pi's JSON.
"""
