"""The findings of an examination, and how they are printed."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import final

from ..output import styled, write_json, write_line


class Level(enum.Enum):
    OK = "ok"
    NOTE = "note"
    """Nothing is wrong, but it is good to know."""
    UNKNOWN = "unknown"
    """It could not be found out."""
    WARN = "warn"
    """It works, and will not always."""
    FAIL = "fail"
    """It does not work, or is not safe."""

    def finding(self, check: str, text: str, advice: str = "", /, **details: object) -> Finding:
        return Finding(check, self, text, advice, details)


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, and what to do about it; `details` are the same for programs.

    `check` is one of dns, tcp, tls, server, session, login, quorum, settings, clock, path, queue,
    ghost.
    """

    check: str
    level: Level
    text: str
    advice: str = ""
    details: Mapping[str, object] = field(default_factory=dict)


def _joined(findings: Iterable[Finding]) -> list[Finding]:
    found: dict[object, list[Finding]] = {}
    for each in findings:
        server = str(each.details.get("server"))
        key = (each.check, each.level, each.text.removeprefix(f"{server}: "), each.advice)
        found.setdefault(key, []).append(each)
    return [_of_all(alike) for alike in found.values()]


def _of_all(alike: list[Finding]) -> Finding:
    first = alike[0]
    servers = [str(each.details.get("server")) for each in alike]
    text = first.text.removeprefix(f"{servers[0]}: ")
    return first if len(alike) == 1 else replace(first, text=f"{', '.join(servers)}: {text}")


_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@final
@dataclass(slots=True)
class DoctorReport:
    """Prints findings as they come, and counts them; `quiet` leaves out what is fine."""

    as_json: bool
    quiet: bool
    counts: dict[Level, int] = field(default_factory=lambda: dict.fromkeys(Level, 0))

    def add(self, findings: Iterable[Finding]) -> None:
        """Print findings; as text, what is the same of several servers is said once."""
        for finding in findings if self.as_json else _joined(findings):
            self.counts[finding.level] += 1
            if not (self.quiet and finding.level in (Level.OK, Level.NOTE)):
                self._print(finding)

    @property
    def has_failures(self) -> bool:
        return self.counts[Level.FAIL] > 0

    def sum_up(self) -> None:
        counts = {level.value: count for level, count in self.counts.items()}
        if self.as_json:
            write_json({"summary": counts})
        else:
            write_line("")
            write_line(", ".join(f"{count} {name}" for name, count in counts.items() if count))

    def _print(self, finding: Finding) -> None:
        if self.as_json:
            write_json(
                {
                    "check": finding.check,
                    "level": finding.level.value,
                    "text": finding.text,
                    "advice": finding.advice or None,
                    **finding.details,
                }
            )
            return
        level = f"{finding.level.value:<8}"
        style = _STYLES.get(finding.level)
        write_line(styled(level, style) if style else level, f"{finding.check:<9} ", finding.text)
        if finding.advice:
            write_line(f"{'':<18}{finding.advice}")
