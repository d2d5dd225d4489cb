"""The compose reader's answers beyond values: chains, notes, names, versions, bounds, refusals."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relayconf.compose import ComposeError, Project, load
from relayconf.compose.document import MAX_DEPTH
from relayconf.compose.environment import Step
from relayconf.compose.include import MAX_LEVELS

APP = "services:\n  app:\n    image: img\n"

Read = Callable[..., Project]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write files into an empty folder and load the project that they make up."""

    def write_and_load(contents: dict[str, str], **options: Any) -> Project:
        for name, text in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        options.setdefault("environ", {})
        return load(directory=str(tmp_path), **options)

    return write_and_load


def chain(project: Project, name: str, service: str = "app") -> list[tuple[Any, ...]]:
    """Each step of a variable's chain as layer, origin, raw, value and whether it wins."""

    def row(step: Step) -> tuple[Any, ...]:
        return (step.layer, step.origin, step.raw, step.value, step.shadowed_by is None)

    return [row(step) for step in project.services[service][name].chain]


class TestChain:
    def test_environment_over_env_files(self, read: Read) -> None:
        """The winner comes first, then the env files, the last one before the first."""
        files = {
            "compose.yaml": APP + "    env_file: [a.env, b.env]\n    environment:\n      A: 'x'\n",
            "a.env": "A=1\n",
            "b.env": "# c\nA='2' # c\n",
        }
        expected = [
            ("environment", "compose.yaml:6:7", "'x'", "x", True),
            ("env_file", "b.env:2:1", "'2'", "2", False),
            ("env_file", "a.env:1:1", "1", "1", False),
        ]
        assert expected == chain(read(files), "A")

    def test_loser_names_the_winner(self, read: Read) -> None:
        """A shadowed place says where the place is that shadows it."""
        files = {"compose.yaml": APP + "    environment: [A=1, B=2, A=3]\n"}
        binding = read(files).services["app"]["A"]
        assert [None, "compose.yaml:4:29"] == [step.shadowed_by for step in binding.chain]

    def test_across_files(self, read: Read) -> None:
        """What an override file replaced is kept with its place."""
        files = {
            "a.yaml": APP + "    environment: {A: 1}\n",
            "b.yaml": "services:\n  app:\n    environment: [A]\n",
            "c.yaml": "services:\n  app:\n    environment: {A: '3'}\n",
        }
        expected = [
            ("environment", "c.yaml:3:19", "'3'", "3", True),
            ("environment", "b.yaml:3:19", "A", None, False),
            ("environment", "a.yaml:4:19", "1", "1", False),
        ]
        project = read(files, files=["a.yaml", "b.yaml", "c.yaml"])
        assert expected == chain(project, "A")

    def test_merge_key_and_extends(self, read: Read) -> None:
        """A merge key's value and an extended service's value are kept in the shadow."""
        files = {
            "compose.yaml": "x-e: &e {A: anchor}\n"
            + APP
            + "    extends: {file: base.yaml, service: base}\n"
            + "    environment: {<<: *e, A: own}\n",
            "base.yaml": "services:\n  base:\n    environment: [A=base]\n",
        }
        expected = [
            ("environment", "compose.yaml:6:27", "own", "own", True),
            ("environment", "compose.yaml:1:13", "anchor", "anchor", False),
            ("environment", "base.yaml:3:19", "A=base", "base", False),
        ]
        assert expected == chain(read(files), "A")

    def test_pass_through_says_where_from(self, read: Read) -> None:
        """A name without a value tells the layer and the place that its value was taken from."""
        files = {
            "compose.yaml": APP + "    environment: [A, B, C]\n",
            ".env": "\nA=dot\n",
        }
        bindings = read(files, environ={"B": "sh"}).services["app"]
        sources = {name: binding.chain[0].source for name, binding in bindings.items()}
        assert {"A": ".env (.env:2:1)", "B": "shell", "C": None} == sources

    def test_references(self, read: Read) -> None:
        """A value tells which variables it asked for and what they were."""
        files = {"compose.yaml": APP + "    environment: {A: '${B:-$C}-$D'}\n"}
        step = read(files, environ={"D": "4"}).services["app"]["A"].chain[0]
        found = [(ref.name, ref.operator, ref.value) for ref in step.references]
        assert [("B", ":-", None), ("C", "", None), ("D", "", "4")] == found

    def test_many_duplicates(self, read: Read) -> None:
        """A list that says one name thousands of times is read and all of it is in the chain."""
        files = {"compose.yaml": APP + "    environment:\n" + "    - A=1\n" * 3000}
        assert len(chain(read(files), "A")) == 3000


class TestNotes:
    def test_unset_variable_names_its_place(self, read: Read) -> None:
        """A variable that became nothing is noted where it was asked for."""
        files = {"compose.yaml": APP + "    environment: {A: $NOPE}\n"}
        notes = read(files).notes
        assert [("unset", "NOPE", "compose.yaml:4:22")] == [
            (note.code, note.name, note.origin) for note in notes
        ]

    def test_unfinished_key(self, read: Read) -> None:
        """A key on a last line without line feed is noted, for Compose takes it for a value."""
        files = {"compose.yaml": APP + "    env_file: a.env\n", "a.env": "A=1\nKEY"}
        project = read(files)
        assert {"app": {"A": "1", "": "KEY"}} == project.environments()
        assert [("unfinished-key", "a.env:2:1")] == [(n.code, n.origin) for n in project.notes]

    def test_obsolete_version(self, read: Read) -> None:
        """The version attribute is noted and ignored."""
        notes = read({"compose.yaml": "version: '3.8'\n" + APP}).notes
        assert ["obsolete-version"] == [note.code for note in notes]


class TestFinding:
    def test_default_names_and_override(self, read: Read) -> None:
        """The best default file is used, with the override beside it."""
        files = {
            "compose.yml": APP + "    environment: {A: yml, B: yml}\n",
            "docker-compose.yml": "services: {other: {image: x}}\n",
            "compose.override.yaml": "services: {app: {environment: {B: over}}}\n",
        }
        project = read(files)
        assert {"app": {"A": "yml", "B": "over"}} == project.environments()
        assert ["several-files"] == [note.code for note in project.notes]

    def test_parent_folder(self, read: Read, tmp_path: Path) -> None:
        """From a subfolder the nearest parent's project is read, with its .env."""
        read({"compose.yaml": APP + "    environment: [A]\n", ".env": "A=1\n", "sub/x": ""})
        project = load(directory=str(tmp_path / "sub"), environ={})
        assert {"app": {"A": "1"}} == project.environments()

    def test_no_file(self) -> None:
        """A folder without a compose file is one clear refusal."""
        with pytest.raises(ComposeError, match="no configuration file provided"):
            load(directory="/proc/self/fdinfo", environ={})

    def test_path_separator(self, read: Read) -> None:
        """COMPOSE_FILE is split by COMPOSE_PATH_SEPARATOR where that is set."""
        files = {"a.yaml": APP, "b.yaml": "services: {app: {environment: {B: '2'}}}\n"}
        environ = {"COMPOSE_FILE": "a.yaml,b.yaml", "COMPOSE_PATH_SEPARATOR": ","}
        assert {"app": {"B": "2"}} == read(files, environ=environ).environments()

    def test_project_name(self, read: Read) -> None:
        """The name is the environment's, else the file's, else the folder's."""
        files = {"compose.yaml": "name: ${N:-from-File}\n" + APP}
        assert read(files).name == "from-file"
        assert read(files, environ={"COMPOSE_PROJECT_NAME": "env"}).name == "env"

    def test_invalid_project_name(self, read: Read) -> None:
        """A project name that Compose would not take is refused where it stands."""
        with pytest.raises(ComposeError, match=r"^\.env:1:1: invalid project name"):
            read({"compose.yaml": APP, ".env": "COMPOSE_PROJECT_NAME=My Project\n"})

    def test_disable_word(self, read: Read) -> None:
        """COMPOSE_DISABLE_ENV_FILE must be a boolean."""
        with pytest.raises(ComposeError, match="COMPOSE_DISABLE_ENV_FILE"):
            read({"compose.yaml": APP}, environ={"COMPOSE_DISABLE_ENV_FILE": "maybe"})

    def test_env_files_setting_of_env_file_is_not_used(self, read: Read) -> None:
        """COMPOSE_ENV_FILES counts in the shell only, not in the file it would replace."""
        files = {
            "compose.yaml": APP + "    environment: [A]\n",
            ".env": "COMPOSE_ENV_FILES=a.env\nA=dot\n",
            "a.env": "A=other\n",
        }
        assert {"app": {"A": "dot"}} == read(files).environments()

    def test_env_files_see_each_other(self, read: Read) -> None:
        """A later env file sees its own lines first, then those of the files before it."""
        files = {
            "compose.yaml": APP + "    environment: [A, B, C]\n",
            "a.env": "X=a\nY=a\n",
            "b.env": "X=b\nA=$X\nB=$Y\nC=$Z\nZ=later\n",
        }
        expected = {"app": {"A": "b", "B": "a", "C": ""}}
        assert expected == read(files, env_files=["a.env", "b.env"]).environments()

    def test_this_process(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without arguments the own environment and working directory count."""
        (tmp_path / "compose.yaml").write_text(APP + "    environment: [RELAYCONF_TEST_A]\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("RELAYCONF_TEST_A", "mine")
        assert {"app": {"RELAYCONF_TEST_A": "mine"}} == load().environments()

    def test_undecodable_environment(self, read: Read) -> None:
        """A byte of the environment that is no UTF-8 is what Go makes of it."""
        files = {"compose.yaml": APP + "    environment: [A]\n"}
        value = os.fsdecode(b"x\xff\xfey")
        assert {"app": {"A": "x\ufffd\ufffdy"}} == read(files, environ={"A": value}).environments()


REFUSALS: dict[str, tuple[str, str, str]] = {
    "no mapping": ("- a\n", "schema", "compose.yaml:1:1: top-level object must be a mapping"),
    "empty document": ("---\n", "schema", "compose.yaml:2:1: top-level object must be a mapping"),
    "empty file": ("# nothing\n", "schema", "compose.yaml: empty compose file"),
    "null services": ("services:\n", "schema", "services must be a mapping"),
    "service text": ("services: {app: img}\n", "schema", "services.app must be a mapping"),
    "null environment": (APP + "    environment:\n", "schema", "environment must be a mapping"),
    "number as user": (APP + "    user: 1000\n", "schema", "services.app.user must be a string"),
    "float as version": ("version: 3.8\n" + APP, "schema", "version must be a string"),
    "profile text": (APP + "    profiles: debug\n", "schema", "profiles must be a list"),
    "profile number": (APP + "    profiles: [5]\n", "schema", "unexpected type integer"),
    "env_file mapping": (APP + "    env_file: {path: x}\n", "schema", "must be a string"),
    "empty name": (APP + "    environment: {'': x}\n", "schema", "additional properties ''"),
    "bad service name": ("services: {a b: {image: x}}\n", "schema", "additional properties 'a b'"),
    "required word": (
        APP + "    env_file: [{path: x, required: maybe}]\n",
        "schema",
        "services.app.env_file.[].required: failed to cast to expected type: invalid boolean",
    ),
    "cast": (APP + "    scale: ${N:-two}\n", "schema", "services.app.scale: failed to cast"),
    "unknown network": (APP + "    networks: [n]\n", "project", "undefined network n"),
    "unknown volume": (APP + "    volumes: ['vol:/v']\n", "project", "undefined volume vol"),
    "unknown secret": (APP + "    secrets: [s]\n", "project", "undefined secret s"),
    "unknown service": (APP + "    depends_on: [db]\n", "project", 'undefined service "db"'),
    "own dependency": (APP + "    depends_on: [app]\n", "project", "cycle detected: app -> app"),
    "empty image": (APP.replace("img", "${I}"), "project", "neither an image nor a build context"),
    "implied service": (APP + "    network_mode: service:db\n", "project", 'service "db"'),
    "extends nothing": (APP + "    extends: b\n", "extends", 'service "b" not found'),
    "extends no name": (APP + "    extends: {}\n", "schema", "extends.app.service is required"),
    "extends no file": (
        APP + "    extends: {file: b.yaml, service: b}\n",
        "missing-file",
        "open b.yaml: no such file or directory",
    ),
    "include text": ("include: a.yaml\n" + APP, "schema", "`include` must be a list"),
    "include missing": ("include: [a.yaml]\n", "missing-file", "a.yaml: no such file"),
    "merge of text": ("x: {<<: a}\n", "yaml", "map merge requires map or sequence of maps"),
    "key twice": ("x: 1\n'x': 2\n", "yaml", 'compose.yaml:2:1: mapping key "x" already defined'),
    "alias in itself": ("x: &a [*a]\n", "yaml", "cycle detected: anchor 'a'"),
    "bad tag": ("x: !!int a\n", "yaml", "yaml syntax: cannot decode a !!str as a !!int"),
    "secret without source": (APP + "secrets: {s: {}}\n", "schema", "one of file|environment"),
    "operator": (APP + "    labels: ['${A:=1}']\n", "template", "compose.yaml:4:15: invalid inter"),
    "blank size": (
        APP + "    mem_limit: ${M}\n",
        "schema",
        "mem_limit: it is blank, an invalid size",
    ),
    "size without number": (APP + "    shm_size: lots\n", "schema", "shm_size: invalid size"),
    "size with two units": (
        APP + "    deploy: {resources: {limits: {memory: 1gm}}}\n",
        "schema",
        "compose.yaml:4:43: services.app.deploy.resources.limits.memory: invalid size",
    ),
    "duration without unit": (
        APP + "    stop_grace_period: '5'\n",
        "schema",
        "stop_grace_period: invalid duration",
    ),
    "endless duration": (
        APP + "    healthcheck: {interval: 99999999999h}\n",
        "schema",
        "healthcheck.interval: invalid duration",
    ),
    "blank source": (APP + "    volumes: ['${D}:/x']\n", "schema", "empty section between colons"),
    "blank mount": (APP + "    volumes: ['${D}']\n", "schema", "invalid empty volume spec"),
    "colons": (APP + "    volumes: ['./a:/b:ro:z']\n", "schema", "invalid spec: too many colons"),
    "mount of a disabled service": (
        APP + "  off: {image: x, profiles: [p], volumes: [':/x']}\n",
        "schema",
        "services.off.volumes: invalid spec",
    ),
    "required in extension": ("x-a: ${A?why}\n" + APP, "required", "missing a value: why"),
}


class TestRefusals:
    @pytest.mark.parametrize("name", REFUSALS)
    def test_says_what_and_where(self, name: str, read: Read) -> None:
        """What Compose refuses is refused with a kind, a place and Compose's key phrase."""
        text, kind, message = REFUSALS[name]
        with pytest.raises(ComposeError) as caught:
            read({"compose.yaml": text})
        assert kind == caught.value.kind
        assert message in str(caught.value)

    def test_no_value_in_a_message(self, read: Read) -> None:
        """An env file that does not parse is refused without a piece of any value."""
        text = "A=hunter2\nB='hunter2\n"
        with pytest.raises(ComposeError, match=r"^\.env:2:3: unterminated") as caught:
            read({"compose.yaml": APP, ".env": text})
        assert "hunter2" not in str(caught.value)

    def test_control_characters_are_escaped(self, read: Read) -> None:
        """A name with control characters or of great length stays one short line."""
        with pytest.raises(ComposeError) as caught:
            read({"compose.yaml": f'"\\e[31m{"x" * 5000}": 1\n'})
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1000

    @pytest.mark.parametrize(
        "attribute",
        [
            "mem_limit: 1.5g",
            "mem_limit: 1 GiB",
            "mem_limit: '1_000'",
            "memswap_limit: -1",
            "shm_size: 64Mb",
            "stop_grace_period: 1h1m1.5s",
            "stop_grace_period: '0'",
            "healthcheck: {test: x, interval: -5s, timeout: 500us}",
            "volumes: ['C:/a:/x', 'D:\\a:/y:ro', /z, './a:/b:ro,z', '~/a:/c']",
        ],
    )
    def test_a_text_that_is_fine(self, attribute: str, read: Read) -> None:
        """Sizes, durations and mounts are taken in every form that Compose takes."""
        assert {"app": {}} == read({"compose.yaml": f"{APP}    {attribute}\n"}).environments()

    def test_disabled_profile_is_not_judged(self, read: Read) -> None:
        """A service of an inactive profile may be inconsistent."""
        files = {"compose.yaml": APP + "  off: {profiles: [p], depends_on: [nope]}\n"}
        assert {"app": {}} == read(files).environments()

    def test_optional_dependency_on_disabled_service(self, read: Read) -> None:
        """A dependency that is not required may be of an inactive profile."""
        text = APP + (
            "    depends_on: {off: {condition: service_started, required: false}}\n"
            "  off: {image: x, profiles: [p]}\n"
        )
        assert ("off",) == read({"compose.yaml": text}).disabled


class TestBounds:
    def test_depth(self, read: Read) -> None:
        """Deep nesting is refused at once, however deep it is."""
        for text in ("x: " + "[" * 100_000, "x:\n " + "- " * 50_000, "x: " + "{a: " * 30_000):
            with pytest.raises(ComposeError, match=f"more than {MAX_DEPTH} levels"):
                read({"compose.yaml": text})

    def test_aliases(self, read: Read) -> None:
        """Aliases that multiply are refused."""
        lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
        for before, name in zip("abcdefgh", "bcdefghi", strict=True):
            lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]")
        with pytest.raises(ComposeError, match="aliases expand to more than"):
            read({"compose.yaml": "\n".join(lines)})

    def test_include_levels(self, read: Read) -> None:
        """A chain of includes is followed to a fixed depth."""
        count = MAX_LEVELS + 5
        files = {f"c{n}.yaml": f"include: [c{n + 1}.yaml]\n" for n in range(count)}
        with pytest.raises(ComposeError, match=f"more than {MAX_LEVELS} levels of include"):
            read({**files, f"c{count}.yaml": APP}, files=["c0.yaml"])

    def test_include_doubling(self, read: Read) -> None:
        """Includes that double at each level are refused, not followed for hours."""
        files = {f"c{n}.yaml": f"include: [c{n + 1}.yaml, c{n + 1}.yaml]\n" for n in range(15)}
        with pytest.raises(ComposeError, match="includes load more than"):
            read({**files, "c15.yaml": APP}, files=["c0.yaml"])

    def test_endless_file(self, read: Read) -> None:
        """A file without end is refused."""
        with pytest.raises(ComposeError, match="is larger than"):
            read({"compose.yaml": APP + "    env_file: /dev/zero\n"})

    def test_named_pipe(self, read: Read, tmp_path: Path) -> None:
        """A pipe that nobody writes to is refused, not waited for."""
        os.mkfifo(tmp_path / "pipe.env")
        with pytest.raises(ComposeError, match="is a named pipe"):
            read({"compose.yaml": APP + "    env_file: pipe.env\n"})


class TestVersions:
    def test_unquoted_date(self, read: Read) -> None:
        """The newest Compose takes an unquoted date for a value, 2.40 refuses it."""
        files = {"compose.yaml": APP + "    environment: {A: 2024-01-02}\n"}
        expected = {"app": {"A": "2024-01-02 00:00:00 +0000 UTC"}}
        assert expected == read(files).environments()
        with pytest.raises(ComposeError, match="quote the date"):
            read(files, version="2.40")

    def test_default_is_read_only_where_it_counts(self, read: Read) -> None:
        """2.40 reads a default that is not used, also in an env file."""
        files = {"compose.yaml": APP + "    env_file: a.env\n", "a.env": "A=${X:-${Y:?need}}\n"}
        assert {"app": {"A": "x"}} == read(files, environ={"X": "x"}).environments()
        with pytest.raises(ComposeError, match="required variable Y"):
            read(files, environ={"X": "x"}, version="2.40")

    def test_unknown_version(self, read: Read) -> None:
        """A version that the reader does not know is refused by name."""
        with pytest.raises(ComposeError, match=r"unknown Compose version '1\.29'"):
            read({"compose.yaml": APP}, version="1.29")


TABS = {
    "after a colon": "A:\tx",
    "behind a value": "A: x\t",
    "before a comment": "A: x\t# c",
    "behind quotes": "A: 'x'\t",
}


class TestWhiteSpace:
    @pytest.mark.parametrize("place", TABS)
    def test_tab_separates(self, place: str, read: Read) -> None:
        """A tab where no indentation is at stake is white space, as in Compose."""
        text = APP + f"    environment:\n      {TABS[place]}\n"
        assert {"app": {"A": "x"}} == read({"compose.yaml": text}).environments()

    def test_tab_does_not_indent(self, read: Read) -> None:
        """A tab at the start of a line is refused where it stands."""
        for text in ("services:\n\tapp: {}\n", "a: b\n\tc: d\n", "\ta: b\n", "- \ta\n"):
            with pytest.raises(ComposeError, match=r"yaml syntax: found .*(tab|\\t)"):
                read({"compose.yaml": text})

    def test_byte_order_mark(self, read: Read) -> None:
        """A byte order mark is skipped at the start and is a character anywhere else."""
        text = "\ufeff" + APP + "    environment: {A: x\ufeffy}\n"
        assert {"app": {"A": "x\ufeffy"}} == read({"compose.yaml": text}).environments()

    def test_escaped_apostrophe(self, read: Read) -> None:
        """Double quotes may escape an apostrophe."""
        text = APP + '    environment: {A: "it\\\'s"}\n'
        assert {"app": {"A": "it's"}} == read({"compose.yaml": text}).environments()

    @pytest.mark.parametrize("ending", ["\x85", "\u2028", "\u2029"])
    def test_rare_line_break(self, ending: str, read: Read) -> None:
        """A line may also end in the line breaks of YAML 1.1."""
        text = f"{APP}    environment:\n      A: 1{ending}      B: 2  # c{ending}      C: 3\n"
        assert {"app": {"A": "1", "B": "2", "C": "3"}} == read(
            {"compose.yaml": text}
        ).environments()

    def test_line_break_within_a_value(self, read: Read) -> None:
        """A value does not go on at the beginning of the next line, whatever ended the first."""
        with pytest.raises(ComposeError, match="yaml syntax"):
            read({"compose.yaml": f"{APP}    environment:\n      A: a\x85b\n"})


class TestDocuments:
    def test_anchor_of_an_earlier_one(self, read: Read) -> None:
        """An anchor holds for the documents after its own as well, until it is set anew."""
        text = (
            "x-a: &a {A: '1'}\nx-b: &b {B: '1'}\n---\nx-b: &b {B: '2'}\n"
            "services: {app: {image: img, environment: {<<: [*a, *b]}}}\n"
        )
        assert {"app": {"A": "1", "B": "2"}} == read({"compose.yaml": text}).environments()

    def test_null_include(self, read: Read) -> None:
        """An entry of include that is null includes nothing."""
        assert {"app": {}} == read({"compose.yaml": "include: [null]\n" + APP}).environments()
