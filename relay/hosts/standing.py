"""A shell that stays on an SSH connection and publishes files: one way there, one way back.

A command of its own for each file costs two round trips before its first byte is read. This one
reads a size, three paths and the bytes, again and again, and answers each with a line. It
checks that the stream is where it should be before any file gets its name, and ends with its
connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import asyncssh

from relay.hosts.publishing import temp_path

#: Larger files go by a command of their own: while one travels, the others wait behind it.
LARGEST = 1024 * 1024

#: Ends what belongs to one file; where it is not found, the stream is out of step.
_MARK = b"end\n"

PROGRAM = """\
while IFS= read -r size && IFS= read -r final && IFS= read -r temp && IFS= read -r gone; do
  code=0 folder=${final%/*}
  umask 077
  if [ "$gone" ] && ! [ -e "$gone" ] && ! [ -L "$gone" ]; then
    code=done
    head -c "$size" >/dev/null
  elif [ -d "${folder:-/}" ]; then
    [ -g "${folder:-/}" ] && umask 007
    set -C
    head -c "$size" >"$temp" || code=43
    set +C
  else
    code=44
    head -c "$size" >/dev/null
  fi
  IFS= read -r mark
  if [ "$mark" != end ]; then
    rm -f "$temp"
    exit 9
  fi
  if [ $code = 0 ]; then
    if [ -L "$final" ]; then rm -f "$final"; fi
    if [ -d "$final" ]; then mv "$final" "$final.aside.$$"; fi
    mv -f "$temp" "$final" || code=43
  fi
  if [ $code = 0 ]; then
    [ -z "$gone" ] || rm -f "$gone" 2>/dev/null || mv "$gone" "$gone.aside.$$"
  else
    rm -f "$temp"
  fi
  [ $code != done ] || code=0
  echo $code
done
"""


class StandingError(Exception):
    """The shell is gone, or out of step; another way has to be taken."""


class Standing:
    """The shell on one connection.

    Args:
        process: what runs ``PROGRAM``; its streams carry bytes.
    """

    def __init__(self, process: Any) -> None:
        self._process = process
        self._waiting: deque[asyncio.Future[int]] = deque()
        self.broken = False
        self._task = asyncio.ensure_future(self._listen())

    @staticmethod
    def can(path: str, data: bytes, gone: str | None) -> bool:
        """Whether a file can be published in this way: names are lines here."""
        return len(data) <= LARGEST and "\n" not in path and "\n" not in (gone or "")

    async def publish(self, path: str, data: bytes, gone: str | None) -> int:
        """Publish a file; return what a command of its own would exit with.

        Raises:
            StandingError: whether it was published is not known.
        """
        if self.broken:
            raise StandingError
        names = "\n".join((str(len(data)), path, temp_path(path), gone or "", ""))
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        try:
            self._process.stdin.write(names.encode("utf-8", "surrogateescape") + data + _MARK)
        except (OSError, ValueError):
            self._break()
        return await answer

    async def _listen(self) -> None:
        try:
            while line := await self._process.stdout.readline():
                code = int(line)
                answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_result(code)
        except (OSError, ValueError, IndexError, asyncssh.Error):
            # What it says makes no sense, or it says nothing any more.
            self._process.close()
        finally:
            self._break()

    def _break(self) -> None:
        self.broken = True
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(StandingError())

    def close(self) -> None:
        """End it."""
        self._task.cancel()
        self._process.close()
