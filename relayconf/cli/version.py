"""``--version``, for both command lines: one distribution, one version."""

from __future__ import annotations

import argparse


class Version(argparse.Action):
    """Print the version; looked up only when asked for, since that is slow."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print it, and end the program."""
        del namespace, values, option_string
        from importlib.metadata import version  # noqa: PLC0415 - slow to import

        print(f"{parser.prog} {version('relayconf')}")  # noqa: T201 - the answer
        parser.exit()
