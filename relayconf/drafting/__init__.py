"""Drafting a contract from the compose and env files that a team already has, for review."""

from __future__ import annotations
