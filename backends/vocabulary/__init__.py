"""Ids and texts as a model's files give them: of GGUF files as llama.cpp reads them, and of Hugging Face folders."""
