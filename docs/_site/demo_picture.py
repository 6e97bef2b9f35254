"""Plays `aiolead demo`, and draws what its screen showed: python demo_picture.py FILE.svg

The picture is what a terminal shows, scene by scene: it moves where moving pictures are welcome,
and shows the last scene elsewhere. It loads nothing from anywhere.
"""

import io
import re
import sys
from pathlib import Path
from typing import ClassVar

from rich.console import Console

from aiolead.cli import demo, main
from aiolead.cli.demo import Screen
from aiolead.cli.demo_processes import DemoProcesses

COLUMNS = 82
SECONDS_PER_SCENE = 2.5
TITLE = "aiolead demo: four processes, two crashes, a resignation, and one leader at any time"

_SCENE = """<g class="scene" id="{unique_id}"><style>{styles}</style><!-- {terminal_height} -->
{matrix}
</g>
"""

_PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
  role="img" aria-labelledby="title">
<title id="title">{title}</title>
<style>
text {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
text {{ font-size: 20px; white-space: pre; }}
.scene {{ visibility: hidden; }}
.scene:last-of-type {{ visibility: visible; }}
@media (prefers-reduced-motion: no-preference) {{
{motion}
}}
</style>
<rect width="{width}" height="{height}" rx="10" fill="#1b1f27"/>
<circle cx="26" cy="22" r="7" fill="#ff5f57"/>
<circle cx="48" cy="22" r="7" fill="#febc2e"/>
<circle cx="70" cy="22" r="7" fill="#28c840"/>
<svg x="20" y="44" overflow="visible">
{scenes}</svg>
</svg>
"""


class _Camera(Screen):
    """Takes a picture at the end of each scene: just before something new is told."""

    scenes: ClassVar[list[str]] = []

    def __init__(self, title: str, processes: DemoProcesses, *, as_json: bool) -> None:
        super().__init__(title, processes, as_json=as_json)
        self._is_summed_up = False

    def tell(self, text: str, style: str = "") -> None:
        if self._told:
            self._take()
        super().tell(text, style)

    def sum_up(self, lines: list[tuple[str, str]]) -> None:
        if not self._is_summed_up:
            self._take()
        self._is_summed_up = True

    def _take(self) -> None:
        console = Console(
            record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True, highlight=False
        )
        console.print(self.frame())
        name = f"scene{len(self.scenes)}"
        scene = console.export_svg(code_format=_SCENE, unique_id=name)
        # Nothing is clipped, and the ends of lines are drawn as text.
        scene = re.sub(r' clip-path="[^"]*"', "", scene)
        self.scenes.append(re.sub(r"<text[^>]*>\s*</text>", "", scene))


def _motion(count: int) -> str:
    rules = []
    for number in range(count):
        begin, end = 100 * number / count, 100 * (number + 1) / count
        steps = ["0% { visibility: hidden; }"] if number else []
        steps.append(f"{begin:.2f}% {{ visibility: visible; }}")
        if number + 1 < count:
            steps.append(f"{end:.2f}% {{ visibility: hidden; }}")
        rules.append(f"@keyframes scene{number} {{ {' '.join(steps)} }}")
        lasts = f"{count * SECONDS_PER_SCENE}s step-end infinite"
        rules.append(f"#scene{number} {{ animation: scene{number} {lasts}; }}")
    return "\n".join(rules)


def picture(scenes: list[str]) -> str:
    """One picture of all scenes, one after the other."""
    height = max(float(found) for scene in scenes for found in re.findall("<!-- (.*) -->", scene))
    return _PICTURE.format(
        width=round(COLUMNS * 12.2 + 40),
        height=round(height + 60),
        title=TITLE,
        motion=_motion(len(scenes)),
        scenes="".join(scenes),
    )


def play(file: Path) -> int:
    demo.Screen = _Camera
    code = main(["demo"])
    if code == 0:
        file.write_text(picture(_Camera.scenes), "utf-8")
    return code


if __name__ == "__main__":
    raise SystemExit(play(Path(sys.argv[1])))
