"""The fleet: overrides that reach every host through a Redis or Valkey server, and prove it.

``options`` says how to reach it.
"""
