"""How native threads wait for one another. Imported before whatever brings OpenMP."""

from __future__ import annotations

import os

# GNU OpenMP reads this when it is loaded. By default a thread that waits for a slower one spins for milliseconds, on the
# very core that the slower one needs when another program is busy; with this bound a busy machine decodes twice as fast,
# and a quiet one as fast as before.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
