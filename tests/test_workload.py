"""Workloads in words, what is refused, and scheduling domains of machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from schedlab import Kernel, Machine, Workload, WorkloadError
from schedlab.cli import main

ROOT = Path(__file__).parents[1]
RT_APP = ROOT / "crates" / "workload" / "tests" / "data"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize("name", Workload.names())
def test_every_built_in_workload_is_shown(name: str) -> None:
    shown = run("workload", "show", name)
    assert shown.exit_code == 0, shown.output
    data = json.loads(run("workload", "show", name, "--json").output)
    assert data["name"] == name
    assert data["figures"]
    for parameter in data["parameters"]:
        assert parameter["source"], parameter


def test_the_list_names_them_all() -> None:
    rows = json.loads(run("workload", "list", "--json").output)
    assert [row["name"] for row in rows] == Workload.names()
    assert "sysbench-memory" in run("workload", "list").output


def test_the_example_in_the_documentation_is_what_is_printed() -> None:
    text = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    session = text.split("```console\n$ schedlab ")[1].split("```")[0]
    command, _, expected = session.partition("\n")
    assert run(*command.split()).output == expected


def test_defaults_follow_the_machine() -> None:
    assert Workload.load("schbench").task_count == 10
    assert Workload.load("schbench", Machine.load("kunpeng920-2s")).task_count == 130


def test_parameters_tell_default_and_value() -> None:
    rows = {row[0]: row[1:] for row in Workload.load("sysbench-memory").parameters.iter_rows()}
    assert rows["threads"] == ("threads", "1", "32", "--threads")
    assert rows["memory_access_mode"][1:3] == ('"seq"', '"rnd"')


def test_rt_app_files_load() -> None:
    workload = Workload.load(RT_APP / "mp3-short.json")
    assert (workload.model, workload.task_count) == ("rt-app", 6)
    assert run("workload", "show", str(RT_APP / "browser-short.json")).exit_code == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("model = 'hackbnch'", "w.toml:1: unknown model hackbnch; there are"),
        ("model = 'hackbnch'", "did you mean hackbench?"),
        ("model = 'ebizzy'\n[options]\nthreadz = 2", "w.toml:3: unknown field `threadz`"),
        ("model = 'periodic'\n[options]\ntasks = 0", "tasks = 0 is not in 1 to"),
        ("model = 'periodic'\n[options]\ntasks = 1000000", "tasks = 1000000 is not in 1 to"),
        ("model = ", "w.toml:1: "),
    ],
)
def test_bad_files_are_refused_with_line_and_mend(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "w.toml"
    path.write_text(content, encoding="utf-8")
    shown = run("workload", "show", str(path))
    assert shown.exit_code == 2
    assert words in shown.output
    assert len(shown.output.splitlines()) <= 2


def test_near_names_are_suggested() -> None:
    with pytest.raises(WorkloadError, match="did you mean schbench"):
        Workload.load("shbench")


def test_what_a_machine_lacks_is_named(tmp_path: Path) -> None:
    affinity = tmp_path / "pinned.json"
    affinity.write_text('{"tasks": {"a": {"cpus": [9], "run": 1, "sleep": 1}}}', encoding="utf-8")
    assert run("workload", "show", str(affinity)).exit_code == 0
    refused = run("workload", "show", str(affinity), "--machine", "generic")
    assert refused.exit_code == 2
    assert "program a is allowed on no CPU of this machine, which has 8 CPUs" in refused.output
    machine = tmp_path / "bare.toml"
    toml = Machine.preset_toml("atom-netbook-ht") or ""
    machine.write_text(toml.replace("l2_kib = 512\n", ""), encoding="utf-8")
    refused = run("workload", "show", "sysbench-memory", "--machine", str(machine))
    assert "write memory.l2_kib into its file" in refused.output


def test_domains_are_drawn_once_for_cpus_that_see_them_alike() -> None:
    drawn = run("machine", "show", "--domains", "pixel6-gs101").output
    titles = [line for line in drawn.splitlines() if line.startswith("CPU")]
    assert titles == [
        "CPUs 0-3 (4 alike, drawn for CPU 0)",
        "CPUs 4-5 (2 alike, drawn for CPU 4)",
        "CPUs 6-7 (2 alike, drawn for CPU 6)",
    ]


def test_domains_are_those_of_the_kernel() -> None:
    machine = Machine.load("kunpeng920-2s")
    levels = {}
    for name in ["v5.7", "v6.12"]:
        built = machine.domains(Kernel.load(name))
        stack = [built["domains"][place["domain"]] for place in built["cpus"][0]["stack"]]
        levels[name] = [(domain["level"], domain["imbalance_pct"]) for domain in stack]
    # Clusters are a level since v5.16, and 117 percent the default since v5.10.
    assert [level for level, _ in levels["v5.7"]] == ["MC", "NUMA", "NUMA", "NUMA"]
    assert [level for level, _ in levels["v6.12"]] == ["CLS", "MC", "NUMA", "NUMA", "NUMA"]
    assert levels["v5.7"][-1][1] == 125
    assert levels["v6.12"][-1][1] == 117
    words = ["machine", "show", "--domains", "kunpeng920-2s", "--kernel", "v5.7", "--json"]
    assert json.loads(run(*words).output)["kernel"] == "v5.7"


def test_options_that_do_not_meet_are_refused() -> None:
    assert run("machine", "show", "--kernel", "v5.7", "generic").exit_code == 2
    assert run("machine", "show", "--domains", "--toml", "generic").exit_code == 2
