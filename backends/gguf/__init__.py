"""GGUF files as they lie on disk: headers, and what follows from them."""
