"""Instances: the processes that hold settings live, and how each says what it has applied.

``register`` is a process's own entry, ``listing`` how others see who lives, ``applied`` the record
of what was applied when, ``silent`` those who cannot write there, ``child`` the entry of a command
that was started with its settings.
"""
