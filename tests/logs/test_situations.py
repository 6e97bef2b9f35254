"""The log, the output of the command and the metrics in each situation of `situations.py`."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest
from kit.cli import WITHIN, Command, environment, objects
from logs.log_lines import Lines
from logs.situations import SITUATIONS, Scene, Situation
from logs.test_held_situations import LOSSES, REFUSALS
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import aiolead
from aiolead import Lock
from aiolead.errors import AioleadError
from aiolead.events import Event, EventName
from aiolead.instrumentation.otel import OpenTelemetrySink
from aiolead.instrumentation.prometheus import PrometheusSink

situations = pytest.mark.parametrize("row", SITUATIONS, ids=lambda row: row.name)


_VARIES = (
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), "zk:N"),
    (re.compile(r"zk\.invalid:2181"), "zk:N"),
    (re.compile(r"zk\.invalid"), "zk"),
    # The resolver of a machine without a network.
    (re.compile(r"Temporary failure in name resolution"), "Name or service not known"),
    (re.compile(r"within [\d.]+ seconds?"), "within N s"),
)


def normal(text: str) -> str:
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return text


# --- a program -----------------------------------------------------------------------------------


async def attempt(scene: Scene, *sinks: aiolead.events.EventSink) -> str:
    """Takes a lock; gives the error, or nothing as soon as the log says that there is no server."""
    missing = anyio.Event()

    def note(event: Event) -> None:
        if event.name is EventName.CONNECTION_MISSING:
            missing.set()

    error = ""
    connection = aiolead.connect(
        scene.hosts, connect_timeout=0, on_event=[*sinks, note], **scene.options
    )
    with anyio.fail_after(WITHIN):
        async with connection as client, anyio.create_task_group() as tasks:

            async def take() -> None:
                nonlocal error
                try:
                    async with Lock(client, "/l"):
                        error = "it is held"
                except AioleadError as raised:
                    error = f"{type(raised).__name__}: {raised}"
                tasks.cancel_scope.cancel()

            tasks.start_soon(take)
            await missing.wait()
            tasks.cancel_scope.cancel()
    return error


@situations
async def test_program_logs_the_situation(row: Situation, lines: Lines, tmp_path: Path) -> None:
    with row.scene(tmp_path) as scene:
        error = await attempt(scene)
    assert [normal(line) for line in lines.all] == row.wanted_log
    assert normal(error) == row.error


@situations
async def test_instruments_show_the_situation(row: Situation, tmp_path: Path) -> None:
    registry, exporter = CollectorRegistry(), InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with row.scene(tmp_path) as scene:
        await attempt(
            scene,
            PrometheusSink(registry=registry),
            OpenTelemetrySink(
                meter_provider=MeterProvider(), tracer_provider=provider, requests=True
            ),
        )

    def count(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"aiolead_{name}_total", labels) or 0

    is_missing = int(bool(row.why))
    assert count("connection_missing") == is_missing
    failed = [
        sample.labels
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "aiolead_connection_attempts_total"
        and sample.labels["outcome"] == "failed"
    ]
    if is_missing:
        assert {normal(labels["server"]) for labels in failed} == {"zk:N"}
    assert all(labels["error"] for labels in failed)
    assert count("session_changes", state="auth_failed") == (row.error[:4] == "Auth")
    (wait,) = (span for span in exporter.get_finished_spans() if span.name == "aiolead.acquire")
    facts = dict(wait.attributes or {})
    error, colon, _ = row.error.partition(": ")
    assert facts.get("error.type", "") == (error if colon else "")
    assert facts["aiolead.path"] == "/l"
    if "I connected to zk:N: session 0xN" in row.log:
        assert f"{facts['server.address']}:{facts['server.port']}" == scene.hosts
    else:
        assert "server.address" not in facts


DEFAULT = """
import sys, anyio, aiolead

async def main():
    async with aiolead.connect(sys.argv[1], connect_timeout=float(sys.argv[2])):
        pass

try:
    anyio.run(main)
except aiolead.errors.ConnectFailed:
    pass
"""


def test_program_without_configuration_prints_the_warnings_alone(tmp_path: Path) -> None:
    (row,) = (row for row in SITUATIONS if row.name == "web server")
    with row.scene(tmp_path) as scene:
        printed = subprocess.run(
            [sys.executable, "-c", DEFAULT, scene.hosts, "5"],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=True,
        )
    warnings = [line[2:] for line in row.wanted_log if line[0] == "W"]
    assert normal(printed.stderr).splitlines() == warnings
    assert printed.stdout == ""


# --- the command ---------------------------------------------------------------------------------

COMMANDS = {
    "run": ("/l", "--", "true"),
    "lock": ("/l", "--", "true"),
    "once": ("/l", "k", "--", "true"),
    "top": (),
    "dashboard": ("--port", "0"),
}


def finished(scene: Scene, commands: dict[str, tuple[str, ...]]) -> dict[str, tuple[int, Command]]:
    """The exit code of each, and the command with its output. They run all at once.

    A command that had no time for one attempt at the server is given longer.
    """
    within = 1.0
    while True:
        with ExitStack() as running:
            started = {
                name: running.enter_context(
                    Command(
                        name,
                        *("--connect-timeout", f"{within:g}", *scene.arguments, *arguments),
                        hosts=scene.hosts,
                        env=scene.env,
                    )
                )
                for name, arguments in commands.items()
            }
            ended = {name: (command.finish(), command) for name, command in started.items()}
        said = [line for _, one in ended.values() for line in one.out.rest() + one.err.rest()]
        if within > WITHIN or not any(re.search(r" yet\b", line) for line in said):
            return ended
        within *= 4


@pytest.mark.exhaustive("words of the command, which change rarely", one_in=4)
@situations
def test_command_prints_the_situation(row: Situation, tmp_path: Path) -> None:
    chosen = {name: COMMANDS[name] for name in row.commands}
    with row.scene(tmp_path) as scene:
        ended = finished(scene, chosen)
    found = {
        name: (code, [normal(line) for line in command.err.rest()])
        for name, (code, command) in ended.items()
    }
    assert found == dict.fromkeys(row.commands, row.wanted_command)
    assert not any("sesame" in line for _, command in ended.values() for line in command.out.rest())


@pytest.mark.exhaustive("words of the command, which change rarely", one_in=4)
@situations
def test_doctor_finds_the_situation(row: Situation, tmp_path: Path) -> None:
    with row.scene(tmp_path) as scene:
        code, command = finished(scene, {"doctor": ("--json",)})["doctor"]
    found = [each for each in objects(command.out.rest()) if each.get("level") == "fail"]
    assert [
        normal(
            ": ".join([each["check"], " -> ".join(filter(None, [each["text"], each["advice"]]))])
        )
        for each in found
    ] == row.wanted_doctor
    assert code == (row.command[0] if row.doctor else 0)
    assert command.err.rest() == []


# --- the page ------------------------------------------------------------------------------------


def test_page_lists_the_situations() -> None:
    page = Path(aiolead.__file__).parents[1] / "docs" / "reference" / "logging.md"
    section = page.read_text("utf-8").partition("## Tested situations\n")[2]
    ours, others, *_ = (" ".join(item.split()) for item in section.split("\n* ")[1:])
    assert ours.partition("metrics: ")[2].split(", ") == [row.name for row in SITUATIONS]
    names = [*LOSSES, *REFUSALS]
    assert all(name in others or name.removeprefix("refused ") in others for name in names)
    for file in re.findall(r"`(tests/[^`]+)`", section):
        assert (page.parents[2] / file).is_file()
