"""The one shell program that publishes a file in a sandbox: written aside, checked, renamed.

Hosts that can run ``sh`` share it. The file is created exclusively under a temporary name, has all
its bytes or is given up, and takes its name by a rename; what stands in its way is moved aside.
"""

from __future__ import annotations

import os

from relay.hosts.host import Done, Faulty, Host, Missing, TimedOut

#: Exit codes of the program: the directory is not there; the file could not be written.
_NO_DIRECTORY = 44
_NOT_WRITTEN = 43

#: Called with: the final path, the temporary one, the path that it replaces or nothing, the size in
#: bytes, then the text itself, or ``-`` and it comes on stdin, or ``+`` and paths whose bytes make
#: it up. RACE: two runs of one publication at the very same time may both find what they replace;
#: the later file then stays until it is swept.
PUBLISH = """\
final=$1 temp=$2 gone=$3 size=$4 how=$5
shift 5
umask 077
folder=${final%/*}
[ -d "${folder:-/}" ] || exit 44
if [ "$gone" ] && ! [ -e "$gone" ] && ! [ -L "$gone" ]; then
  case $how in
  -) cat >/dev/null ;;
  +) rm -f "$@" ;;
  esac
  exit 0
fi
[ -g "${folder:-/}" ] && umask 007
set -C
case $how in
-) cat ;;
+) cat "$@" ;;
*) printf %s "$1" ;;
esac >"$temp"
if [ "$(wc -c <"$temp")" -ne "$size" ]; then
  rm -f "$temp"
  exit 43
fi
if [ "$how" = + ]; then rm -f "$@"; fi
if [ -L "$final" ]; then rm -f "$final"; fi
if [ -d "$final" ]; then mv "$final" "$final.aside.$$"; fi
mv -f "$temp" "$final" || { rm -f "$temp"; exit 43; }
[ -z "$gone" ] || rm -f "$gone" 2>/dev/null || mv "$gone" "$gone.aside.$$"
exit 0
"""

#: The longest argument that Linux hands to a program is 128 KiB.
_LONGEST_ARGUMENT = 120_000


def is_argument(data: bytes) -> bool:
    """Whether bytes can be an argument of a program: short, without NUL, UTF-8."""
    if len(data) > _LONGEST_ARGUMENT or b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def temp_path(path: str) -> str:
    """Return a fresh path beside ``path``, of the form that the relay's sweeps know."""
    return f"{path}.tmp.{os.urandom(6).hex()}"


def publish_argv(path: str, size: int, how: str, *rest: str, gone: str | None) -> list[str]:
    """Return the command that publishes ``size`` bytes at ``path``; see ``Host.write``."""
    temp = temp_path(path)
    return ["sh", "-c", PUBLISH, "sh", path, temp, gone or "", str(size), how, *rest]


def judge(host: Host, path: str, done: Done) -> None:
    """Raise where a publication did not succeed.

    Raises:
        Missing: the directory is not there.
        TimedOut: it took too long.
        Faulty: it could not be written.
    """
    if done.timed_out:
        raise TimedOut(f"{host.name}: writing {path} took longer than {host.timeout:g} s")
    if done.code == 0:
        return
    if done.code == _NO_DIRECTORY:
        raise Missing(f"{host.name}: the directory of {path} is not there")
    last = done.stderr.strip().rpartition("\n")[2][:200] or f"exit code {done.code}"
    raise Faulty(f"{host.name}: {path} cannot be written: {last}")
