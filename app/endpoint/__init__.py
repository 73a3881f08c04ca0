"""The OpenAI-style endpoint: another sink on the engine's one path."""
