"""The Agent Client Protocol: editors drive fairlead over it."""
