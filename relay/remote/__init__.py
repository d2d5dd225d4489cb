"""The remote hop: serving a session directory that only a host can reach.

A bounded program inside the sandbox claims requests and prints them; one window at a time waits
there for more; plain listings from outside go on underneath and are what everything falls back to.
"""

from __future__ import annotations
