"""What users add to the agent: instructions for the model, skills, prompt templates."""
