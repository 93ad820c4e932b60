"""Extensions: Python code that users and projects add to the agent.

`late.py` is all that an idle start loads. `engine.py` holds the loaded extensions and calls their handlers; `hooks.py` connects
them to the session. Extensions see `api.py`, `context.py` and `ui.py`. `calling.py` runs their code so that it cannot harm the
agent.
"""
