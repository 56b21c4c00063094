"""Parameter spaces of templates and the samplers that walk them."""
