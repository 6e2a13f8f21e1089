"""Sweeps on a real Dask cluster, with stores on a real S3 server, and faults of both."""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING

import pytest
import sweep_faults
from click.testing import CliRunner, Result
from dask_cluster import Cluster, certificates
from s3_server import BUCKET, environment, forget_clients, s3_server
from schedlab.cli import main
from schedlab.store.segments import Segments

if TYPE_CHECKING:
    from pathlib import Path

OTHER_VERSION = """
import schedlab.sweep.cluster
schedlab.sweep.cluster.program = lambda: "0.0.1+other"
"""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[sweep_faults.Found, float]:
    """Give what an undisturbed sweep stores, and how long it takes."""
    return sweep_faults.undisturbed(tmp_path_factory.mktemp("reference"))


def sweep(folder: Path, *words: object) -> Result:
    """Run the plan from this process."""
    plan = folder / "plan.toml"
    plan.write_text(sweep_faults.PLAN, encoding="utf-8")
    return CliRunner().invoke(main, ["sweep", str(plan), "--json", *map(str, words)])


def test_a_cluster_with_tls_stores_on_s3_what_this_machine_stores_in_a_folder(
    known: tuple[sweep_faults.Found, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLAB_STORE", str(tmp_path / "here"))
    tls = certificates(tmp_path)
    words = [
        word
        for option, file in zip(("--tls-ca", "--tls-cert", "--tls-key"), tls, strict=True)
        for word in (option, file)
    ]
    store = f"s3://{BUCKET}/team/sweep"
    with s3_server(tmp_path) as port:
        forget_clients()
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        with Cluster(tmp_path, tls=tls) as cluster:
            found = sweep(tmp_path, "--store", store, "--scheduler", cluster.address, *words)
            assert found.exit_code == 0, found.output
            assert f"{sweep_faults.RUNS} runs simulated" in found.stderr
            # Without its certificate nobody gets in.
            found = sweep(tmp_path, "--store", store, "--scheduler", cluster.address)
            assert found.exit_code == 2
            assert "give --tls-ca and --tls-cert" in found.stderr
            refuse_wrong_files(tmp_path, cluster.address, tls)
        assert sweep_faults.found_in(store) == known[0]
        # Two people's stores become one.
        mine = Segments(tmp_path / "mine")
        assert mine.merge(Segments(store)) == len(mine.names()) > 1
        assert sweep_faults.found_in(tmp_path / "mine") == known[0]
        assert Segments(store).compact(least=2) > 0
        assert sweep_faults.found_in(store) == known[0]


def refuse_wrong_files(folder: Path, address: str, tls: list[str]) -> None:
    """Show the scheduler certificates that are not its authority's, and files that are none."""
    (folder / "other").mkdir()
    authority, certificate, key = tls
    other_authority, other_certificate, other_key = certificates(folder / "other")
    plan = str(folder / "plan.toml")
    for (ca, cert, own), words in (
        ((other_authority, certificate, key), f"not one that --tls-ca {other_authority} vouches"),
        ((authority, other_certificate, other_key), f"refuses --tls-cert {other_certificate}"),
        ((authority, certificate, other_key), f"--tls-key {other_key}: not the key of --tls-cert"),
        ((plan, certificate, key), f"--tls-ca {plan}: no certificate in it; give a PEM file"),
        ((authority, certificate, certificate), "not a certificate with its key"),
        ((authority, certificate, plan), "not a certificate and its key"),
    ):
        files = ("--tls-ca", ca, "--tls-cert", cert, "--tls-key", own)
        found = sweep(folder, "--store", folder / "none", "--scheduler", address, *files)
        assert found.exit_code == 2
        assert words in found.stderr


def test_a_worker_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(OTHER_VERSION, encoding="utf-8")
    with Cluster(tmp_path, workers=0) as cluster:
        cluster.begin_worker("worker-0", "--preload", str(tmp_path / "other.py"))
        found = sweep(tmp_path, "--store", tmp_path / "s", "--scheduler", cluster.address)
    assert found.exit_code == 2
    assert "has schedlab 0.0.1+other, this client" in found.stderr
    assert not (tmp_path / "s").exists()


def test_what_an_extra_needs_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, words in (
        ("distributed", ("--scheduler", "tcp://127.0.0.1:1", "--store", tmp_path / "store")),
        ("fsspec", ("--store", "s3://bucket/store")),
    ):
        monkeypatch.setitem(sys.modules, name, None)
        found = sweep(tmp_path, *words)
        assert found.exit_code == 2
        assert f"needs {name}; install it by `pip install schedlab[sweep]`" in found.stderr


def test_a_scheduler_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlab.sweep.cluster.CONNECT_S", 0.1)
    for address, words in (
        ("tcp://127.0.0.1:1", "tcp://127.0.0.1:1: Connection refused; begin one by"),
        ("127.0.0.1:8786", "--scheduler 127.0.0.1:8786: write it as tcp://HOST:8786"),
        ("tcp://127.0.0.1:port", "write it as tcp://HOST:8786"),
    ):
        found = sweep(tmp_path, "--store", tmp_path / "store", "--scheduler", address)
        assert found.exit_code == 2
        assert words in found.stderr


@pytest.mark.parametrize(
    "fault", ["worker_killed", "client_killed", "scheduler_restarted", "disk_full", "store_late"]
)
def test_a_sweep_survives(
    fault: str, known: tuple[sweep_faults.Found, float], tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(json.dumps({"seed": seed}))
    sweep_faults.suffer(fault, 1, tmp_path, known, seed)
