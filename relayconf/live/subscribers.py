"""Who is told of a swap: one swap after the other, each to all, in the order of subscription.

A swap that a subscriber causes is told after the one that it was told of. A subscriber that raises
is logged, counts as deaf until it is told without failing, and holds up no other.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

Subscriber = Callable[[T, T], None]

log = logging.getLogger("relayconf")


class Subscribers(Generic[T]):
    """The subscribers of one reference. Its owner sees to it that one thread tells at a time.

    Attributes:
        deaf: those that failed when they were told last.
        telling: whether they are being told now.
    """

    def __init__(self) -> None:
        self.deaf: set[Subscriber[T]] = set()
        self.telling = False
        self._all: list[Subscriber[T]] = []
        self._news: deque[tuple[T, T]] = deque()

    def add(self, callback: Subscriber[T]) -> None:
        """Tell one more."""
        self._all.append(callback)

    def remove(self, callback: Subscriber[T]) -> None:
        """Tell one no longer. Doing so twice does nothing."""
        if callback in self._all:
            self._all.remove(callback)
        self.deaf.discard(callback)

    def tell(self, old: T, new: T) -> None:
        """Tell all of a swap, now or after the one that they are being told of."""
        self._news.append((old, new))
        if self.telling:
            return
        self.telling = True
        try:
            while self._news:
                news = self._news.popleft()
                for callback in tuple(self._all):
                    self._call(callback, *news)
        finally:
            self.telling = False

    def forget_news(self) -> None:
        """Begin anew in a forked child, where nobody is being told of anything."""
        self.telling = False
        self._news.clear()

    def _call(self, callback: Subscriber[T], old: T, new: T) -> None:
        try:
            callback(old, new)
        except Exception:
            self.deaf.add(callback)
            log.exception("a subscriber to the settings failed")
        else:
            self.deaf.discard(callback)
