"""Extensions written for pi, in TypeScript or JavaScript.

One Node process runs all of them. `bridge.py` starts it and carries calls both ways; `runtime/` is the program that it runs.
`remote.py` loads and calls extensions there. `registrations.py` adds what they register to the agent; `requests.py` answers
what they ask. `events.py` and `results.py` convert events and results between our types and pi's JSON.
"""
