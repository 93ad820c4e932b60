"""What the user types: keys, the editor, its completion and its history, and the terminal they come from."""
