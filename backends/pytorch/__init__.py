"""The PyTorch runtime. What comes first here is imported before torch."""

import os

from pardec_chat.backends import threads as threads

# torch reads this when it allocates for the first time. Weights are read from end to end for every token, and in pages of
# 4 KiB a CPU spends a tenth of that time on looking up where they lie.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
