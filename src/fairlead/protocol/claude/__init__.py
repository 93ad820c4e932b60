"""The protocol of hosts that use claude-agent-sdk, or that start `claude` with JSON on both sides."""
