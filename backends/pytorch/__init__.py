"""The PyTorch runtime. What comes first here is imported before torch."""

from pardec_chat.backends import threads as threads
