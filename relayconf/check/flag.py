"""Flags past their date: a declaration that somebody promised to have removed by then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from relayconf.check.declared import Judged, container
from relayconf.check.finding import Finding, Place
from relayconf.check.inspection import Inspection
from relayconf.expiry import NOTICE_DAYS, expiry
from relayconf.setting import Contract, Setting


def check(inspection: Inspection) -> Iterator[Finding]:
    """Look at the flags of each container that has a contract."""
    project = inspection.project
    if project is None:
        return
    for service, contracts in inspection.contracts.items():
        judged = container(project, service)
        place = _of_service(inspection, service)
        for contract in contracts:
            yield from expired(inspection, contract, judged, service or None, place)


def expired(
    inspection: Inspection,
    contract: Contract,
    judged: dict[str, Judged],
    service: str | None,
    elsewhere: Place,
) -> Iterator[Finding]:
    """Find the expired flags of one contract, each where it is set.

    Args:
        inspection: knows the day.
        contract: what is declared.
        judged: the texts by name.
        service: whose container it is.
        elsewhere: the place of a flag that is set nowhere.
    """
    for setting in contract.settings.values():
        if setting.flag is None or not expiry(setting.flag, inspection.today).over:
            continue
        names = [name for name in (setting.name, *setting.legacy) if name in judged]
        place = judged[names[0]].at.place if names else elsewhere
        later = inspection.today + timedelta(days=NOTICE_DAYS)
        message = f"{_told(setting)}; remove it from the code and from {contract.target}'s contract"
        fix = f'"expires": "{later.isoformat()}"'
        yield Finding("expired-flag", message, place, setting.name, service, fix)


def _told(setting: Setting) -> str:
    flag = setting.flag
    owner = flag.owner if flag else ""
    return f"the flag's last day was {flag.expires if flag else ''} (its owner is {owner})"


def _of_service(inspection: Inspection, service: str) -> Place:
    """Where a service begins in the files."""
    model = inspection.model
    services = model.entries.get("services") if model is not None else None
    mark = getattr(services, "keys", {}).get(service)
    return Place("compose") if mark is None else Place(mark.path, mark.line, mark.column)
