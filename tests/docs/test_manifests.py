"""The units of systemd and the manifests of Kubernetes are valid, and run."""

from __future__ import annotations

import configparser
import contextlib
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import yaml
from kit.pages import EXAMPLES, PATIENCE, Load, Program, Said, lifespan
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from aiolead.cli import environment
from aiolead.cli.app import app as aiolead_command

UNITS = sorted((EXAMPLES / "systemd").glob("*.service"))
MANIFESTS = sorted((EXAMPLES / "kubernetes").glob("*.yaml"))


def _accepts(arguments: list[str]) -> dict[str, Any]:
    """The arguments of `aiolead`, as it understands them; raises if it does not."""
    _, bound, _ = aiolead_command.parse_args(arguments, exit_on_error=False, print_error=False)
    return bound.arguments


def _variables() -> set[str]:
    """The environment variables that `aiolead` knows."""
    return {*environment.SECRET, *environment.PLAIN}


# --- systemd -----------------------------------------------------------------------------------


def _unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text().replace("\\\n", " "))
    return parser


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_unit_is_valid(path: Path, tmp_path: Path) -> None:
    service = _unit(path)["Service"]
    # It has the time to resign, and is started again whatever it died of.
    assert int(service["TimeoutStopSec"]) >= 30
    assert service["Restart"] == "always"
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("there is no systemd-analyze; the rest was checked")
    # Its program has to exist.
    text = re.sub(r"/opt/\w+/bin/\w+", sys.executable, path.read_text())
    text = re.sub(r"/opt/\w+", str(tmp_path), text)
    copy = tmp_path / path.name
    copy.write_text(text)
    found = subprocess.run([verify, "verify", copy], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")


def _beat(instance: str, folder: Path) -> list[str]:
    """The command of the unit, with this Python and the folder of the test."""
    (folder / instance / "beat").mkdir(parents=True)
    command = _unit(EXAMPLES / "systemd" / "beat.service")["Service"]["ExecStart"]
    for there, here in (
        ("/opt/tasks/bin/", f"{sys.executable} -m "),
        ("%H", instance),
        ("%S", str(folder / instance)),
    ):
        assert there in command
        command = command.replace(there, here)
    return shlex.split(command)


def test_unit_runs_one_beat_of_two(
    embedded: str, chroot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES / "celery_beat"))
    monkeypatch.setenv("CELERY_BROKER_URL", "filesystem://")  # folders, where it is started
    sent = tmp_path / "data_out"
    sent.mkdir()
    (tmp_path / "data_in").mkdir()

    def start(instance: str) -> Program:
        return Program(*_beat(instance, tmp_path), hosts=embedded + chroot, cwd=tmp_path)

    with start("one") as one:
        first = int(one.wait_for(r"leads /jobs/beat \(token (\d+)\)")[1])
        with start("two") as two:
            two.wait_for("waits for leadership of /jobs/beat")
            _wait_for_messages(sent, 2)
            assert one.finish(signal.SIGTERM) == 0
            second = int(two.wait_for(r"leads /jobs/beat \(token (\d+)\)")[1])
            count = len(list(sent.iterdir()))
            _wait_for_messages(sent, count + 1)
            assert two.finish(signal.SIGTERM) == 0
    # The names begin with the time.
    messages = sorted(sent.iterdir(), key=lambda file: int(file.name.partition("_")[0]))
    tokens = [json.loads(file.read_text())["headers"]["token"] for file in messages]
    assert tokens == sorted(tokens, key=int)
    assert set(tokens) == {str(first), str(second)}


def _wait_for_messages(folder: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(list(folder.iterdir())) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


# --- Kubernetes --------------------------------------------------------------------------------


def _manifests() -> list[dict[str, Any]]:
    return [each for file in MANIFESTS for each in yaml.safe_load_all(file.read_text())]


def _named(kind: str, name: str) -> dict[str, Any]:
    (found,) = (
        each for each in _manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


def _deployments() -> list[dict[str, Any]]:
    return [each["spec"] for each in _manifests() if each["kind"] == "Deployment"]


def test_deployments_are_valid() -> None:
    assert len(_deployments()) == 2
    for spec in _deployments():
        pod = spec["template"]["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert spec["replicas"] > 1
        assert pod["terminationGracePeriodSeconds"] >= 30
        for container in pod["containers"]:
            names = [variable["name"] for variable in container["env"]]
            assert "AIOLEAD_HOSTS" in names
            assert {name for name in names if name.startswith("AIOLEAD_")} <= _variables()
            words = " ".join(container["command"])
            assert set(re.findall(r"\$\((\w+)\)", words)) <= set(names)


def test_command_of_a_pod_is_valid() -> None:
    (command,) = (
        container["command"]
        for spec in _deployments()
        for container in spec["template"]["spec"]["containers"]
        if container["command"][0] == "aiolead"
    )
    bound = _accepts(command[1:])
    assert bound["path"] == "/jobs/beat"
    assert bound["options"].id == "$(POD_NAME)"
    assert bound["forever"] is True
    assert bound["command"][0] == "celery"


class Cluster:
    """As much of the API of Kubernetes as it takes: pods, their labels, who may do what.

    Attributes:
        labels: those of each pod.
        verbs: the verbs of the requests.
        is_away: whether it answers nothing but errors.
    """

    def __init__(self, *pods: str) -> None:
        self.labels: dict[str, dict[str, str]] = {pod: {"app": "reports"} for pod in pods}
        self.verbs: set[str] = set()
        self.is_away = False
        pods_path = "/api/v1/namespaces/default/pods"
        routes = [
            Route(pods_path, self._list),
            Route(pods_path + "/{pod}", self._patch, methods=["PATCH"]),
        ]
        self._app = Starlette(routes=routes)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self._app), base_url="https://cluster.test"
        )

    def wearing(self, selector: dict[str, str]) -> set[str]:
        return {pod for pod, labels in self.labels.items() if selector.items() <= labels.items()}

    async def _list(self, request: Request) -> JSONResponse:
        self.verbs.add("list")
        if self.is_away:
            return JSONResponse({}, 503)
        wanted = dict(each.split("=") for each in request.query_params["labelSelector"].split(","))
        names = sorted(self.wearing(wanted))
        return JSONResponse({"items": [{"metadata": {"name": name}} for name in names]})

    async def _patch(self, request: Request) -> JSONResponse:
        self.verbs.add("patch")
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        labels = self.labels.get(request.path_params["pod"])
        if labels is None:
            return JSONResponse({}, 404)
        for name, value in (await request.json())["metadata"]["labels"].items():
            if value is None:
                labels.pop(name, None)
            else:
                labels[name] = value
        return JSONResponse({})


def test_leader_has_the_label_of_its_service(
    embedded: str, chroot: str, load: Load, said: Said
) -> None:
    create_app, hosts = load("kubernetes/service.py").create_app, embedded + chroot
    selector = _named("Service", "reports-leader")["spec"]["selector"]
    pod = _named("Deployment", "reports")["spec"]["template"]
    container = pod["spec"]["containers"][0]
    probes = [container[kind]["httpGet"]["path"] for kind in ("readinessProbe", "livenessProbe")]
    cluster = Cluster("killed", "pod-1", "pod-2")
    cluster.labels["killed"] |= selector
    cluster.labels["pod-0"] = {"app": "reports"}

    async def main() -> None:
        async with contextlib.AsyncExitStack() as second:
            async with lifespan(create_app(hosts, "pod-1", cluster.client())):
                await said.wait_for("pod-1 leads")
                assert cluster.wearing(selector) == {"pod-1"}
                two = await second.enter_async_context(
                    lifespan(create_app(hosts, "pod-2", cluster.client()))
                )
                transport = httpx.ASGITransport(two.app)
                async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                    for probe in probes:
                        assert (await http.get(probe)).status_code == 200
                assert cluster.wearing(selector) == {"pod-1"}
            await said.wait_for("pod-2 leads")
            assert cluster.wearing(selector) == {"pod-2"}
        assert cluster.wearing(selector) == set()
        assert [line.split(",")[0] for line in said.lines] == [
            "pod-1 leads",
            "pod-1 has stopped",
            "pod-2 leads",
            "pod-2 has stopped",
        ]

    anyio.run(main)
    # Its requests are those that its account may make.
    account = pod["spec"]["serviceAccountName"]
    binding = _named("RoleBinding", "reports")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    (rule,) = _named("Role", binding["roleRef"]["name"])["rules"]
    assert rule["resources"] == ["pods"]
    assert set(rule["verbs"]) == cluster.verbs
    # And the container is started as that application.
    assert container["command"][-1] == "service:create_app"


def test_leader_that_cannot_set_the_label_resigns(
    embedded: str, chroot: str, load: Load, said: Said
) -> None:
    create_app, hosts = load("kubernetes/service.py").create_app, embedded + chroot
    cluster = Cluster("pod-1")
    cluster.is_away = True

    async def main() -> None:
        async with lifespan(create_app(hosts, "pod-1", cluster.client())):
            await said.wait_for("pod-1 resigns")
            cluster.is_away = False
            await said.wait_for("pod-1 leads")

    anyio.run(main)
