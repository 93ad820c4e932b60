"""What the model is sent: the conversation as messages, counted in tokens and cut to fit the context window."""
