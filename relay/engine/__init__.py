"""The runner: it takes requests out of session directories, runs tools and publishes answers.

``Runner`` (``runner``, on ``life``) is the way in. The rest is one module per idea:

* A call's way: ``hub`` wakes ``loop``, which gives a ``session`` its turn; that claims in its
  ``directory``, and ``execute`` reads, judges, runs and answers. ``slots`` bounds how much at once.
* A directory's life: ``place`` opens, watches and finds it again, ``scan`` lists it, ``residue``
  clears what others left, ``root`` finds sessions, ``locks`` tells which runners are alive.
* On file systems that may not answer (``filesystems``, ``opening``), ``bounded`` stands for
  ``session`` and ``boundedplace`` and ``boundedwatch`` for ``place``: ``looking`` is all that
  touches files, in the thread of a ``worker``, and ``answers`` are published from there. Some of
  ``session`` is said again there, since nothing of the hot path is to wait for a thread.
* The settings: ``limits`` in force, ``settingswatch`` and ``obeying`` for their changes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"Counters": "relay.engine.telemetry", "Runner": "relay.engine.runner"}

__all__ = ["Counters", "Runner"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
