"""Extensions: Python that users and projects add to the agent.

`late.py` is all that an idle start loads. `engine.py` holds what was loaded and asks it at the turning points of a session;
`api.py` and `context.py` are what extensions see, `calling.py` is how their code is run without letting it do harm.
"""
