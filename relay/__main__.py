"""``python -m relay``: the same as the command ``relay``."""

from __future__ import annotations

import sys

from relay.cli import main

if __name__ == "__main__":
    sys.exit(main())
