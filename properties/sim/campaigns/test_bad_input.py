"""What is wrong with a campaign is told in one line, with exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squall.sim.cli.main import main as run_command

GOOD = "scenarios = 100\n[parts]\nplain = 0.5\nrough = 0.5\n"
FILES = {
    "unknown part": (
        GOOD.replace("rough", "rouhg"),
        "parts: there is no part 'rouhg', expected some",
    ),
    "shares": (GOOD.replace("0.5\n", "0.25\n", 1), "parts: the shares add up to 0.75, expected 1"),
    "too small a share": (
        "scenarios = 3\n[parts]\nplain = 0.99\nstorm = 0.01\n",
        "parts.storm: 0.01 of the time of 3 scenarios is none",
    ),
    "negative share": (GOOD.replace("rough = 0.5", "rough = -0.5"), "parts.rough.share: "),
    "no number": (GOOD.replace("rough = 0.5", "rough = 'half'"), "parts.rough.share: "),
    "no scenarios": (GOOD.replace("scenarios = 100\n", ""), "scenarios: "),
    "none at all": (GOOD.replace("100", "0"), "scenarios: "),
    "too many": (GOOD.replace("100", str(2**63)), "scenarios: "),
    "seeds that end too late": (
        f"first_seed = {2**63 - 10}\n{GOOD}",
        "parts.plain: its seeds end at",
    ),
    "unknown field": (f"minutes = 3\n{GOOD}", "minutes: "),
    "no parts": ("scenarios = 100\n[parts]\n", "parts: the shares add up to 0, expected 1"),
    "a share of what is done whole": (
        f"{GOOD}canaries = 0.1\n",
        "parts.canaries: is done whole and has no share, expected a table [parts.canaries]",
    ),
    "no planted bug": (
        f"{GOOD}canaries = {{ bugs = ['no-such-bug'] }}\n",
        "parts.canaries: bugs: there is no planted bug 'no-such-bug'",
    ),
    "a bug that nothing shows": (
        f"{GOOD}canaries = {{ bugs = ['response-recorded-in-any-case'] }}\n",
        "parts.canaries: bugs: 'response-recorded-in-any-case' cannot be found yet: ",
    ),
    "no bugs": (f"{GOOD}canaries = {{ bugs = [] }}\n", "parts.canaries: bugs: is empty"),
    "no seeds for them": (f"{GOOD}canaries = {{ seeds = 0 }}\n", "parts.canaries.seeds: "),
    "no bounds": (
        f"{GOOD}explore = {{ programs = 'calls<=2' }}\n",
        "parts.explore: programs: expected workers<=N, calls<=M",
    ),
    "no programs": (f"{GOOD}explore = {{}}\n", "parts.explore.programs: "),
    "unknown kind": (
        f"{GOOD}[parts.mine]\nkind = 'yours'\nshare = 0.1\n",
        "parts.mine: kind: 'yours', expected one of plain, mild",
    ),
    "unknown engine": (
        GOOD.replace("rough = 0.5", "rough = { share = 0.5, engine = 'diesel' }"),
        "parts.rough.engine: 'diesel' is wrong: ",
    ),
    "unknown profile": (
        f"{GOOD}guided = {{ share = 0.1, faults = 'much' }}\n",
        "parts.guided.faults: ",
    ),
    "a name that is none": (
        f"{GOOD}[parts.'my part']\nkind = 'plain'\nshare = 0.1\n",
        "parts: the name 'my part' is none",
    ),
    "no interpreter": (
        f"{GOOD}[parts.versions]\nshare = 0.1\n".replace("plain = 0.5", "plain = 0.4"),
        "python: is missing, expected interpreters for the part versions",
    ),
    "interpreters for nothing": (f"python = ['x']\n{GOOD}", "python: is for a part versions"),
    "an interpreter that is not there": (
        "python = ['no/such/python']\nscenarios = 9\n[parts]\nversions = 1.0\n",
        "/no/such/python' cannot be run: No such file or directory",
    ),
    "every bug": (f"{GOOD}canaries = {{ bugs = 'every' }}\n", "parts.canaries.bugs"),
    "a share of stories": (f"{GOOD}stories = 0.1\n", "parts.stories: is done whole"),
    "stories of no engine": (
        "[parts.stories]\nengine = 'diesel'\n",
        "parts.stories.engine: 'diesel' is wrong: ",
    ),
    "no files": ("[parts.saved]\n", "parts.saved.files: "),
    "files that are not there": (
        "[parts.saved]\nfiles = ['no/*.json']\n",
        "parts.saved: files: 'no/*.json' names no file in ",
    ),
    "a file that is no scenario": (
        "[parts.saved]\nfiles = ['campaign.toml']\n",
        "parts.saved: files: ",
    ),
    "no paths": ("[parts.tests]\npaths = []\n", "parts.tests.paths: "),
    "no suite": (
        "[parts.tests]\npaths = ['tests']\n",
        "parts.tests: paths: there is no file or folder 'tests' in ",
    ),
    "a suite with an option that is none": (
        "[parts.tests]\npaths = ['.']\noptions = ['--no-such-option']\n",
        "parts.tests: paths: pytest found no test, it ended with 4: ",
    ),
    "a suite without a test": (
        "[parts.tests]\npaths = ['.']\n",
        "parts.tests: paths: pytest found no test, it ended with 5: ",
    ),
    "no TOML": ("scenarios: 3", "at line 1"),
    "binary": ("\0\1\2", "line 1"),
}


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a command says of what is wrong."""
    with pytest.raises(SystemExit) as ended:
        run_command(["campaign", *words, "--json"])
    said = capsys.readouterr()
    assert ended.value.code == 2, said
    (line,) = said.err.splitlines()
    report = json.loads(said.out)
    assert report["outcome"] == "bad input"
    assert line == f"squall: {report['message']}"
    return line


@pytest.mark.parametrize("name", FILES)
def test_a_campaign_file(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, problem = FILES[name]
    Path("campaign.toml").write_text(text, encoding="utf-8")
    line = told(capsys, "campaign.toml")
    assert line.startswith("squall: FILE: campaign.toml: ")
    assert problem in line
    assert list(tmp_path.iterdir()) == [tmp_path / "campaign.toml"]


def test_what_does_not_go_together(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("campaign.toml").write_text(GOOD, encoding="utf-8")
    Path("store").write_text("no database " * 100, encoding="utf-8")
    for words, problem in (
        (["campaign.toml", "--seeds", "0:4"], "--seeds: does not go with campaign.toml"),
        (["campaign.toml", "--faults", "rough"], "--faults: does not go with campaign.toml"),
        (["campaign.toml", "--engine", "torch"], "--engine: does not go with campaign.toml"),
        (["campaign.toml", "more.toml"], "FILE: expected one campaign.toml, got more.toml"),
        (["missing.toml"], "FILE: missing.toml: No such file"),
        (["."], "Is a directory"),
        (["--index", "1"], "--index: expected I/N, such as 0/2, got '1'"),
        (["--index", "2/2"], "--index: expected an index from 0 to 1, got 2"),
        (["--merge"], "FILE: expected the stores"),
        (["--merge", "store", "--store", "all"], "FILE: store: file is not a database"),
        (["--merge", "none", "--store", "all"], "FILE: none: unable to open"),
        (["--merge", "store", "--index", "1/2"], "--index: does not go with --merge"),
        (["--store", "store"], "--store: store: file is not a database"),
        (["--store", "no/such/file"], "--store: there is no directory 'no/such'"),
        (["--seeds", f"0:{2**64 - 1}"], "--seeds: expected seeds up to"),
        (["--on", "cloud"], "--on: expected pool or ray or index, got 'cloud'"),
        (["--ray-address", "auto"], "--ray-address: expected --on ray with it"),
        (["--ray-address", "here"], "--ray-address: expected auto, HOST:PORT or ray://"),
        (["--ray-address", "here:99999"], "--ray-address: expected auto, HOST:PORT or ray://"),
        (["--on", "index"], "--on: index: expected --index, or JOB_COMPLETION_INDEX"),
        (["--worker-memory", "2T"], "--worker-memory: expected megabytes or gigabytes as in"),
        (["--worker-memory", "9M"], "got 9M: a process begins with"),
        (["--lease", "0"], "--lease: expected an integer from 1 to"),
    ):
        assert problem in told(capsys, *words), words


def test_the_environment_of_an_indexed_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOB_COMPLETION_COUNT", "2")
    assert "JOB_COMPLETION_COUNT: expected JOB_COMPLETION_INDEX with it" in told(capsys)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "two")
    assert "JOB_COMPLETION_INDEX: expected an integer" in told(capsys)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "2")
    assert "JOB_COMPLETION_INDEX: expected an index from 0 to 1, got 2" in told(capsys)
