"""Answers: a resolution as the documents that ``show --json`` and ``explain --json`` print.

Nothing here holds a secret: every value and every raw text passes through the masking functions.
Ground floor.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from relayconf.problems import Problem
from relayconf.resolve import Candidate, Effective, Resolution, shown
from relayconf.setting import Setting
from relayconf.values import present


def show_document(resolution: Resolution, *, deployment: Optional[str]) -> Dict[str, Any]:
    """Return the whole resolution; the order of the settings is that of the declaration."""
    return {
        "target": resolution.contract.target,
        "deployment": deployment,
        "generation": resolution.generation,
        "settings": [setting_document(e) for e in resolution.settings.values()],
        "problems": [problem_document(p) for p in resolution.problems],
    }


def setting_document(effective: Effective) -> Dict[str, Any]:
    """Return one effective value."""
    setting = effective.setting
    document: Dict[str, Any] = {
        "name": setting.name,
        "type": setting.type,
        "value": present(setting, effective.value),
        "default": present(setting, setting.default),
        "source": {"layer": effective.layer, "origin": effective.origin},
        "raw": None if effective.raw is None else shown(setting, effective.raw),
        "status": effective.status,
        "notes": [note._asdict() for note in effective.notes],
        "live": setting.live,
    }
    if setting.flag is not None:
        document["flag"] = flag_document(setting)
    return document


def flag_document(setting: Setting) -> Optional[Dict[str, Any]]:
    """Return what makes a setting a flag; ``None`` where it is none."""
    flag = setting.flag
    if flag is None:
        return None
    return {
        "kind": flag.kind,
        "owner": flag.owner,
        "expires": flag.expires,
        "kill": present(setting, flag.kill),
    }


def problem_document(problem: Problem) -> Dict[str, Any]:
    """Return one problem."""
    return {
        "code": problem.code,
        "severity": problem.severity,
        "name": problem.name,
        "message": problem.message,
        "origin": problem.origin,
        "suggestion": problem.suggestion,
    }


def explain_document(resolution: Resolution, name: str) -> Dict[str, Any]:
    """Return one effective value with its whole stack, the text in force first."""
    effective = resolution.settings[name]
    setting = effective.setting
    document = setting_document(effective)
    document["target"] = resolution.contract.target
    document["stack"] = [candidate_document(setting, c) for c in stack(effective)]
    document["description"] = setting.doc
    document["details"] = setting.description
    document["unit"] = setting.unit
    document["min"] = present(setting, setting.minimum)
    document["max"] = present(setting, setting.maximum)
    document["choices"] = list(setting.choices)
    document["legacy"] = list(setting.legacy)
    document["example"] = setting.example
    return document


def stack(effective: Effective) -> List[Candidate]:
    """Return every text that was offered, the one in force first, the default last."""
    candidates = sorted(effective.stack, key=lambda c: c.verdict != "in force")
    setting = effective.setting
    verdict = "in force" if effective.layer == "default" else "shadowed"
    default = Candidate("default", "", setting.name, "", verdict)
    return [default, *candidates] if verdict == "in force" else [*candidates, default]


def candidate_document(setting: Setting, candidate: Candidate) -> Dict[str, Any]:
    """Return one text of the stack, masked where the setting is a secret."""
    raw = None if candidate.layer == "default" else shown(setting, candidate.text)
    return {
        "layer": candidate.layer,
        "origin": candidate.origin or None,
        "name": candidate.name,
        "raw": raw,
        "verdict": candidate.verdict,
        "reason": candidate.reason or None,
    }
