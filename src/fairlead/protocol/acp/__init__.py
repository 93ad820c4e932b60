"""The declarations of the Agent Client Protocol (ACP), version 1, as its official schema has them."""
