"""One run of a session: accepting a prompt, the turns, retries."""
