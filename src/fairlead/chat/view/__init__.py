"""What the chat draws: lines of text, made from the events of a session, and the screen that shows them."""
