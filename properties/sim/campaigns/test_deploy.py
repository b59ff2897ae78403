"""What deploy/ has is what it says, as far as that can be seen without a cluster."""

import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from squall.real.own_files import PACKAGE

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: it comes with squall[ray]")

ROOT = (PACKAGE / "sim").resolve().parent
DEPLOY = ROOT / "deploy"


def run(words, folder, **more):
    """The report of a command line, as a shell or a container starts it."""
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", **more}
    environment["SQUALL_STORE"] = str(folder / "kept")
    ended = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_job_and_the_array_play_the_same_share(tmp_path):
    config, claim, job = yaml.safe_load_all((DEPLOY / "job.yaml").read_text(encoding="utf-8"))
    spec = job["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
    assert volumes["campaign"]["configMap"]["name"] == config["metadata"]["name"]
    assert volumes["results"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (count,) = container["env"]
    assert (spec["completionMode"], count["name"]) == ("Indexed", "JOB_COMPLETION_COUNT")
    assert int(count["value"]) == spec["completions"]
    (mount,) = (m["mountPath"] for m in container["volumeMounts"] if m["name"] == "campaign")
    assert container["workingDir"] in {m["mountPath"] for m in container["volumeMounts"]}

    text = re.sub(r"scenarios = \d[\d_]*", "scenarios = 80", config["data"]["campaign.toml"])
    assert "scenarios = 80\n" in text
    (tmp_path / "campaign.toml").write_text(text, encoding="utf-8")
    args = [word.replace(f"{mount}/", f"{tmp_path}/", 1) for word in container["args"]]
    said = json.loads(
        run(
            ["squall", *args, "--lease=2", "--json"],
            tmp_path,
            JOB_COMPLETION_INDEX="3",
            JOB_COMPLETION_COUNT=count["value"],
        )
    )
    assert (said["outcome"], said["index"], said["of"]) == ("ok", 3, spec["completions"])

    slurm = tmp_path / "slurm"
    slurm.mkdir()
    (slurm / "campaign.toml").write_text(text, encoding="utf-8")
    script = (DEPLOY / "array.sh").read_text(encoding="utf-8")
    (last,) = re.findall(r"--array=0-(\d+)", script)
    assert int(last) == spec["completions"] - 1
    (slurm / "array.sh").write_text(
        script.replace("--resume", "--resume --lease 2 --json"), encoding="utf-8"
    )
    also = json.loads(
        run(
            ["bash", "array.sh"],
            slurm,
            SLURM_ARRAY_TASK_ID="3",
            SLURM_ARRAY_TASK_COUNT=str(int(last) + 1),
            SLURM_CPUS_PER_TASK="2",
        )
    )
    assert (also["verdicts"], also["judged"]) == (said["verdicts"], said["judged"])
    assert {said["store"], also["store"]} == {"campaign.3.sqlite"}


def test_the_image_takes_a_checkout_without_what_was_made_for_this_machine():
    patterns = [
        line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n") if line
    ]
    patterns = [line.removeprefix("**/") for line in patterns if not line.startswith("#")]

    def left_out(path):
        return any(fnmatch(part, pattern) for part in Path(path).parts for pattern in patterns)

    installed = re.search(
        r"^VENV := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )[1]
    assert left_out(f"{installed}/.installed"), "or make install would do nothing"
    assert left_out(".git/config")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode == 0:  # else this is no checkout, but what one was unpacked to
        assert [path for path in tracked.stdout.splitlines() if left_out(path)] == []


def test_the_image_is_made_as_the_readme_says():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    steps = [line.removeprefix("RUN ") for line in lines if line.startswith("RUN ")]
    assert steps and all(step in readme for step in steps)
    (base,) = (line for line in lines if line.startswith("FROM "))
    version = base.removeprefix("FROM python:")
    least, most = re.search(r"Python (3\.\d+) to (3\.\d+)", readme).groups()
    assert tuple(map(int, least.split("."))) <= tuple(map(int, version.split(".")))
    assert tuple(map(int, version.split("."))) <= tuple(map(int, most.split(".")))
