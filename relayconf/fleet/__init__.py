"""The fleet: overrides that reach every host through a Redis or Valkey server, and prove it.

``options`` says how to reach it, ``record`` and ``engine`` what passes. What a process knows of it
is its ``view``, which never forgets a kill by accident; a file in the state directory holds the
last good one.
"""
