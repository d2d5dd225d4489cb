"""Secrets that stand in a compose file, which is shared and kept in a repository.

A setting that is declared a secret, or a url with a password in it, written out as the value of an
entry or as the default of an expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from relayconf.check.finding import Finding, place_of
from relayconf.check.inspection import Inspection
from relayconf.check.writing import passed_on
from relayconf.compose.environment import Step
from relayconf.names import fileable
from relayconf.setting import Setting
from relayconf.values import is_blank

_USERINFO = re.compile(r"://[^/\s:@$]*:[^@/\s$]+@")
_ONE = re.compile(r"\$\{[A-Za-z_]\w*:?[-+?]")


def check(inspection: Inspection) -> Iterator[Finding]:
    """Look at every text of a secret setting, also at those that another one shadows."""
    project = inspection.project
    if project is None:
        return
    for service, contracts in inspection.contracts.items():
        bindings = project.services.get(service, {})
        settings = [s for contract in contracts for s in contract.settings.values() if fileable(s)]
        for setting in settings:
            for name in (setting.name, *setting.legacy):
                chain = bindings[name].chain if name in bindings else ()
                for step in chain:
                    if _is_inline(setting, step):
                        yield _finding(inspection, setting, name, service, step)


def _is_inline(setting: Setting, step: Step) -> bool:
    if step.layer != "environment" or step.source is not None or is_blank(step.value or ""):
        return False
    if setting.type == "url":
        return _USERINFO.search(step.raw) is not None
    if not step.references:
        return True
    # Of an expression only a default that was taken is known to be written here.
    taken = all(reference.value is None for reference in step.references)
    return taken and _ONE.search(step.raw) is not None


def _finding(
    inspection: Inspection, setting: Setting, name: str, service: str, step: Step
) -> Finding:
    what = "the secret" if setting.secret else "a password"
    message = f"{what} is written into the compose file; hand it on from outside, or as a file"
    place = place_of(step.origin)
    fix = passed_on(inspection.texts, place, name)
    return Finding("secret-inline", message, place, setting.name, service, fix)
