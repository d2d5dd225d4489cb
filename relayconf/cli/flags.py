"""``relayconf flags``: every flag's state, kind, owner and end; one past its date stands out."""

from __future__ import annotations

import argparse
from datetime import date
from typing import Any

from relayconf import answers, wording
from relayconf.cli import common
from relayconf.cli.table import table
from relayconf.errors import FlagError
from relayconf.expiry import Expiry, expiry
from relayconf.flags import is_on
from relayconf.resolve import Effective, Resolution
from relayconf.setting import Flag
from relayconf.share import share
from relayconf.targets import find_contract


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "flags",
        help="the flags, whose they are, and which should be gone",
        description="Show the state, kind, owner and expiry of every flag of TARGET. Flags past "
        "their date come first. Exit 0 even where there are some.",
        allow_abbrev=False,
    )
    parser.add_argument("positional", nargs="?", metavar="TARGET", help="as --target")
    common.add_options(parser)
    parser.add_argument(
        "--key", metavar="KEY", help="also decide each flag for this key (a session, a customer)"
    )
    parser.add_argument(
        "--today",
        metavar="DATE",
        type=_date,
        default=None,
        help="judge expiry as of this date (2027-03-01) instead of today",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; always 0."""
    process = common.read(arguments)
    target = arguments.positional or arguments.target or common.only_target()
    resolution = common.resolved(find_contract(target), process)
    today = arguments.today or date.today()  # noqa: DTZ011 - a date on the operator's own calendar
    rows = (
        _Row(effective, effective.setting.flag, today, resolution, arguments.key)
        for effective in resolution.settings.values()
        if effective.setting.flag is not None
    )
    flags = sorted(rows, key=lambda row: (row.expiry.days or 0) if row.expiry.over else 0)
    if arguments.json:
        common.print_json(
            {
                "target": resolution.contract.target,
                "deployment": process.sources.deployment,
                "today": today.isoformat(),
                "key": arguments.key,
                "flags": [row.document() for row in flags],
                "problems": [answers.problem_document(p) for p in resolution.problems],
            }
        )
    else:
        common.print_text(_text(resolution, flags, arguments.key))
    return 0


class _Row:
    """One flag on one day."""

    def __init__(
        self,
        effective: Effective,
        flag: Flag,
        today: date,
        resolution: Resolution,
        key: str | None,
    ) -> None:
        self.effective = effective
        self.setting = effective.setting
        self.flag = flag
        self.expiry = expiry(flag, today)
        self.on = _on(resolution, self.setting.name, key)

    def document(self) -> dict[str, Any]:
        """Return the flag as JSON output has it."""
        document = answers.setting_document(self.effective)
        return {
            "name": self.setting.name,
            "type": self.setting.type,
            "value": document["value"],
            "share": self.share(),
            "on": self.on,
            "status": document["status"],
            "source": document["source"],
            "kind": self.flag.kind,
            "owner": self.flag.owner,
            "kill": document["flag"]["kill"],
            "expires": self.flag.expires,
            "why": self.flag.why,
            "expiry": self.expiry.state,
            "days": self.expiry.days,
            "live": self.setting.live,
            "description": self.setting.doc,
        }

    def share(self) -> float | None:
        """Return the percentage of keys that the flag is on for; None where keys do not count."""
        if self.setting.type != "rollout" or self.effective.value is None:
            return None
        return share(self.effective.value) / 100

    def cells(self, key: str | None) -> list[str]:
        """Return the flag as a row of the table."""
        state = wording.value(self.setting, self.effective.value)
        if self.effective.status not in ("ok", "default"):
            state += f" ({self.effective.status})"
        row = [self.setting.name, state]
        if key is not None:
            row.append({True: "on", False: "off", None: "-"}[self.on])
        where = wording.source(self.effective.layer, self.effective.origin)
        return [*row, where, self.flag.kind, self.flag.owner, _end(self.flag, self.expiry)]


def _on(resolution: Resolution, name: str, key: str | None) -> bool | None:
    try:
        return is_on(resolution, name, key=key)
    except FlagError:
        return None


def _end(flag: Flag, end: Expiry) -> str:
    if end.days is None:
        return f"never: {flag.why}"
    days = f"{abs(end.days)} day{'' if abs(end.days) == 1 else 's'}"
    when = {
        "overdue": f"overdue by {days}",
        "expired": f"expired {days} ago",
        "due": f"due in {days}",
    }
    return f"{when.get(end.state, f'in {days}')} ({flag.expires})"


def _text(resolution: Resolution, flags: list[_Row], key: str | None) -> str:
    if not flags:
        return f"{resolution.contract.target} declares no flags"
    header = ["FLAG", "STATE", "SOURCE", "KIND", "OWNER", "EXPIRES"]
    if key is not None:
        header.insert(2, "THIS KEY")
    parts = [table(header, [row.cells(key) for row in flags])]
    over = [row for row in flags if row.expiry.over]
    if over:
        parts.append("")
        parts.append("Past the date by which they were to be gone:")
        parts.extend(f"  {row.setting.name}: ask {row.flag.owner}" for row in over)
    return "\n".join(parts)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date like 2027-03-01") from None
