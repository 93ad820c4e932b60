"""What users add to the agent: instructions for the model, skills, prompt templates.

Private: see `fairlead` for the public modules.
"""
