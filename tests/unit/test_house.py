"""The rules of the house, read off the tree itself: floors, arrows, sizes, what must not be there.

The ground floor is what ``pyproject.toml`` lists under ``per-file-target-version``.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("relay", "relayconf")

#: Standard modules too dear for a program that a sandbox starts for every call.
DEAR = frozenset(
    {
        "argparse",
        "asyncio",
        "dataclasses",
        "email",
        "importlib.metadata",
        "inspect",
        "logging",
        "pathlib",
        "secrets",
        "subprocess",
        "tempfile",
        "urllib.parse",
        "zipfile",
    }
)

#: Imports the modules named in argv and prints what is loaded then: name to file, as JSON.
PROBE = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
for name in sys.argv[2:]:
    importlib.import_module(name)
print({name: getattr(sys.modules[name], "__file__", None) or "" for name in sys.modules
       if name not in before or name.partition(".")[0] in ("relay", "relayconf")})
"""


def expand(pattern: str) -> Iterator[str]:
    """Yield the patterns that ``{a,b}`` in a pattern stands for."""
    braces = re.search(r"\{([^}]*)\}", pattern)
    if braces is None:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from expand(pattern[: braces.start()] + choice + pattern[braces.end() :])


def module_name(root: Path, path: Path) -> str:
    """Return the dotted name of a module's file."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def loaded(root: Path, python: str, names: list[str]) -> dict[str, str]:
    """Return what importing ``names`` loads in a bare interpreter: module to file."""
    command = [python, "-I", "-S", "-c", PROBE, str(root), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return dict(ast.literal_eval(done.stdout))


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the name of every module that is imported anywhere under a node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_when_run(path: Path) -> Iterator[str]:
    """Yield what a module imports, but for the type checker's eyes alone.

    The functions of a package's ``__init__`` do not count: they are the lazy door to what is above.
    """
    for node in ast.parse(path.read_text()).body:
        door = isinstance(node, ast.FunctionDef) and path.name == "__init__.py"
        typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not door and not typing:
            yield from imports(node)


@pytest.fixture(scope="module")
def sources(root: Path) -> dict[str, Path]:
    """Return every module of both packages: dotted name to file."""
    files = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    return {module_name(root, path): path for path in files}


@pytest.fixture(scope="module")
def ground_floor(root: Path) -> dict[str, Path]:
    """Return the modules of the ground floor: dotted name to file."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    patterns = project["tool"]["ruff"]["per-file-target-version"]
    files = {
        path
        for pattern in patterns
        for narrow in expand(pattern)
        for path in root.glob(narrow)
        if path.suffix == ".py"
    }
    return {module_name(root, path): path for path in sorted(files)}


@pytest.fixture(scope="module")
def tracked(root: Path) -> list[Path]:
    """Return the files that belong to the project: git's list, or all of an unpacked sdist."""
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        names = [name for name in listed.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*")]
        names = [name for name in names if not name.startswith((".venv", "dist", "build"))]
    return [root / name for name in names if (root / name).is_file()]


class TestSchemaFolder:
    def test_holds_no_python(self, root: Path) -> None:
        """A checkout on sys.path never shadows the library that is called schema."""
        assert [] == [str(path) for path in (root / "schema").rglob("*.py*")]


class TestGroundFloor:
    def test_every_listed_file_exists(self, root: Path) -> None:
        """The list of the ground floor in pyproject.toml names only files that are there."""
        project = tomllib.loads((root / "pyproject.toml").read_text())
        patterns = project["tool"]["ruff"]["per-file-target-version"]
        narrow = [one for pattern in patterns for one in expand(pattern)]
        assert [] == [one for one in narrow if not list(root.glob(one))]

    def test_loads_the_standard_library_alone(
        self, root: Path, sandbox_python: str, ground_floor: dict[str, Path]
    ) -> None:
        """In a sandbox with a bare Python 3.9 and nothing installed, every part of it imports."""
        modules = loaded(root, sandbox_python, list(ground_floor))
        ours = {name for name in modules if name.partition(".")[0] in PACKAGES}
        assert set(ground_floor) == ours
        foreign = {n: f for n, f in modules.items() if n not in ours and str(root) in f}
        assert {} == foreign
        assert {} == {n: f for n, f in modules.items() if "site-packages" in f}

    def test_loads_nothing_dear(
        self, root: Path, sandbox_python: str, ground_floor: dict[str, Path]
    ) -> None:
        """A sandboxed call starts without asyncio, logging, argparse and their like."""
        assert set() == DEAR & set(loaded(root, sandbox_python, list(ground_floor)))

    def test_rests_on_nothing_above_it(
        self, sources: dict[str, Path], ground_floor: dict[str, Path]
    ) -> None:
        """No module of the ground floor imports one of the floor above, not even in a function."""
        above = set(sources) - set(ground_floor)
        wrong = [
            f"{name} imports {other}"
            for name, path in ground_floor.items()
            for other in imports_when_run(path)
            if other in above
        ]
        assert [] == wrong


class TestArrows:
    def test_relayconf_never_imports_relay(self, sources: dict[str, Path]) -> None:
        """Configuration works where no relay is installed."""
        wrong = [
            f"{name} imports {other}"
            for name, path in sources.items()
            if name.partition(".")[0] == "relayconf"
            for other in imports(ast.parse(path.read_text()))
            if other.partition(".")[0] == "relay"
        ]
        assert [] == wrong

    def test_writer_and_runner_share_the_protocol_alone(self, sources: dict[str, Path]) -> None:
        """What a sandbox holds knows nothing of the runner's side, nor that of the sandbox's.

        Both speak MCP, in opposite directions, over the same lines of JSON-RPC.
        """
        writer = ("relay.client.", "relay.mcp.")
        runner = ("relay.engine.", "relay.remote.", "relay.hosts.", "relay.tools.")
        wrong = [
            f"{name} imports {other}"
            for name, path in sources.items()
            for mine, theirs in ((writer, runner), (runner, writer))
            for other in imports(ast.parse(path.read_text()))
            if f"{name}.".startswith(mine)
            and f"{other}.".startswith((*theirs, "relay.cli."))
            and not other.startswith("relay.mcp.messages")
        ]
        assert [] == wrong

    def test_a_value_knows_nothing_around_it(self, sources: dict[str, Path]) -> None:
        """What a text means hangs on its setting alone: no layer, no file and no environment."""
        own = ("relayconf.values", "relayconf.setting", "relayconf.nearest")
        wrong = [
            f"{name} imports {other}"
            for name, path in sources.items()
            if name.startswith("relayconf.values")
            for other in imports(ast.parse(path.read_text()))
            if other == "os" or (other.startswith("relayconf") and not other.startswith(own))
        ]
        assert [] == wrong

    def test_only_a_command_prints(self, sources: dict[str, Path]) -> None:
        """A program that uses the library has its stdout to itself."""
        wrong = [
            f"{name}:{node.lineno}"
            for name, path in sources.items()
            if name.startswith("relayconf.") and ".cli" not in name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.Name, ast.Attribute))
            and ast.unparse(node) in ("print", "sys.stdout")
        ]
        assert [] == wrong

    @pytest.mark.parametrize("package", PACKAGES)
    def test_a_package_loads_lazily(self, root: Path, package: str) -> None:
        """Importing a package loads none of its modules until a name is asked for."""
        modules = loaded(root, sys.executable, [package])
        assert [package] == sorted(n for n in modules if n.partition(".")[0] in PACKAGES)

    @pytest.mark.parametrize("package", PACKAGES)
    def test_a_package_gives_what_it_promises(self, package: str) -> None:
        """Every name in ``__all__`` can be had and is listed; any other is an AttributeError."""
        code = (
            f"import json, {package} as p\n"
            "for name in p.__all__: getattr(p, name)\n"
            "assert set(p.__all__) <= set(dir(p))\n"
            "print(json.dumps([len(p.__all__) > 0, hasattr(p, 'no_such')]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        assert json.loads(done.stdout) == [True, False]


class TestFiles:
    def test_every_module_says_what_it_is(self, tracked: list[Path]) -> None:
        """A reader who opens any module finds its purpose in the first lines."""
        silent = [
            str(path)
            for path in tracked
            if path.suffix == ".py" and not ast.get_docstring(ast.parse(path.read_text()))
        ]
        assert [] == silent

    def test_no_module_outgrows_one_idea(self, tracked: list[Path]) -> None:
        """No module is longer than 450 lines; one of tests, mostly tables, than 600."""
        lengths = {p: len(p.read_text().splitlines()) for p in tracked if p.suffix == ".py"}
        most = {path: 600 if "tests" in path.parts else 450 for path in lengths}
        assert {} == {str(p): length for p, length in lengths.items() if length > most[p]}

    def test_no_path_of_somebodys_machine(self, tracked: list[Path]) -> None:
        """Nothing in the project names a folder that only one machine has."""
        home = re.compile(rb"(?<![\w.}])/(?:home|root|Users|work)/[\w.]")
        assert [] == [str(path) for path in tracked if home.search(path.read_bytes())]

    def test_no_excuse_without_a_reason(self, tracked: list[Path]) -> None:
        """Every silenced check names the check that it silences, and nothing is left to be done."""
        excuse = re.compile(
            r"#\s*(?:noqa|type:\s*ignore|pragma: no cover)\s*$"
            r"|#.*\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
            re.MULTILINE,
        )
        python = [path for path in tracked if path.suffix == ".py"]
        assert [] == [str(path) for path in python if excuse.search(path.read_text())]


class TestInterpreters:
    def test_continuous_integration_has_them_all(self, missing_pythons: list[str]) -> None:
        """A green run in continuous integration stands for every supported Python."""
        assert [] == missing_pythons
