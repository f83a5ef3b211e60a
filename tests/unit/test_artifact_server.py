"""Downloads from and uploads to the driver, over a real connection."""

from __future__ import annotations

import contextlib
import io
import socket
import zipfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cluster.spec.documents.events import Epoch, Failure, Phase, Step
from cluster.spec.documents.run_folder import RunFolder, write_json
from cluster.spec.experiment import Experiment
from workloads.hosts.artifact_server import ArtifactServer
from workloads.hosts.remote_agent import DriverLine, fetch_data
from workloads.hosts.sent_log import SentLog


@pytest.fixture
def artifact_server(tmp_path: Path) -> Iterator[ArtifactServer]:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "images").write_bytes(bytes(range(256)) * 10_000)
    with ArtifactServer("127.0.0.1") as artifact_server:
        artifact_server.data = tmp_path / "data"
        run = RunFolder(tmp_path / "run").create()
        write_json(run.spec, Experiment(workers=2).to_json())
        artifact_server.deliveries.begin(run)
        yield artifact_server


def run_of(artifact_server: ArtifactServer) -> RunFolder:
    run = artifact_server.deliveries.run
    assert run is not None
    return run


def status(artifact_server: ArtifactServer, method: str, path: str, body: bytes = b"") -> int:
    """Of the answer to a request, whose path begins with the key or something else."""
    address = urlsplit(artifact_server.url)
    connection = HTTPConnection(str(address.hostname), address.port or 0, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, f"/{path}", body)
        return connection.getresponse().status


def test_the_served_code_is_a_zip_of_the_packages_that_workers_need(
    artifact_server: ArtifactServer,
) -> None:
    names = zipfile.ZipFile(io.BytesIO(DriverLine(artifact_server.url).get("code")[1])).namelist()
    assert "workloads/hosts/spark_task.py" in names
    assert "cluster/spec/experiment.py" in names
    assert all(name.startswith(("cluster/", "workloads/")) for name in names)


def test_data_are_downloaded_unchanged(artifact_server: ArtifactServer, tmp_path: Path) -> None:
    fetch_data(DriverLine(artifact_server.url), tmp_path / "fetched")
    (file,) = (tmp_path / "fetched" / "mnist").iterdir()
    assert file.read_bytes() == (tmp_path / "data" / "images").read_bytes()


def step(number: int) -> Step:
    return Step(t=1.0, step=number, step_s=1, data_s=0, compute_s=None, exchange_s=None)


def test_events_are_uploaded_in_order_with_the_next_event_outside_of_training(
    artifact_server: ArtifactServer,
) -> None:
    line = DriverLine(artifact_server.url)
    log = SentLog(None, "node1", lambda body: line.put("events/1", body))
    log.boundary(Phase, phase="train", epoch=1)
    for number in (1, 2):
        log.write(step(number))
    assert not run_of(artifact_server).events(1).exists()
    log.write(Epoch(epoch=1))
    log.write(step(3))
    arrived = run_of(artifact_server).read_events(1)
    assert [event.kind for event in arrived] == ["phase", "step", "step", "epoch"]
    assert arrived[1:3] == [step(1), step(2)]
    log.write(Failure(message="lost"))
    arrived = run_of(artifact_server).read_events(1)
    assert [event.kind for event in arrived][-2:] == ["step", "error"]


def test_the_model_has_its_name_when_all_its_pieces_are_there(
    artifact_server: ArtifactServer,
) -> None:
    line = DriverLine(artifact_server.url)
    for piece in (b"wei", b"ghts"):
        line.put("model/0", piece)
    assert not run_of(artifact_server).model.exists()
    artifact_server.deliveries.finish_model()
    assert run_of(artifact_server).model.read_bytes() == b"weights"


@pytest.mark.parametrize("path", ["spec", "code", "data/mnist/images", "model/0"])
def test_nothing_is_served_without_the_key(artifact_server: ArtifactServer, path: str) -> None:
    assert status(artifact_server, "GET", f"guess/{path}") == 404
    assert status(artifact_server, "PUT", f"guess/{path}", b"evil") == 404


@pytest.mark.parametrize(
    ("path", "length", "status"),
    [
        ("guess/model/0", "1000000000000", 404),
        ("gu\xe9ss/model/0", "1", 404),
        ("KEY/model/0", "1000000000000", 413),
        ("KEY/events/1", "2000000000", 413),
        ("KEY/model/0", "-1", 411),
        ("KEY/model/0", "much", 411),
    ],
)
def test_an_upload_is_refused_before_its_body_is_read(
    artifact_server: ArtifactServer, path: str, length: str, status: int
) -> None:
    address = urlsplit(artifact_server.url)
    path = path.replace("KEY", address.path.strip("/"))
    request = f"PUT /{path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection((str(address.hostname), address.port or 0), 30) as connection:
        connection.sendall(request.encode("latin-1"))
        assert connection.recv(4096).split()[1] == str(status).encode()


def test_it_listens_at_the_given_address_only(artifact_server: ArtifactServer) -> None:
    port = urlsplit(artifact_server.url).port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port or 0), timeout=30)


@pytest.mark.parametrize(
    "path", ["events/../spec", "events/%2e%2e", "spec", "data/../run/spec.json"]
)
def test_uploads_outside_of_the_run_folder_are_refused(
    artifact_server: ArtifactServer, path: str
) -> None:
    before = run_of(artifact_server).spec.read_bytes()
    key = urlsplit(artifact_server.url).path.strip("/")
    assert status(artifact_server, "PUT", f"{key}/{path}", b"evil") == 404
    assert run_of(artifact_server).spec.read_bytes() == before
    assert list((run_of(artifact_server).path / "events").iterdir()) == []
