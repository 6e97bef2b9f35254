"""Finds prose that is hard to read: `python tests/tools/check_prose.py [FILE ...]`.

Checks every page (Markdown), and every docstring, comment and message of the package, the examples,
the tests and the benchmarks, for patterns that read badly and for words that have a standard term;
pages also for lines over 100 columns. Code, link targets and quotations are ignored. `make lint`
runs it.

A file, or all files of `tests` or `benchmarks` together, may have as many findings as
`prose_allowance.json` says. Lower the numbers with `--write-allowance` after you have rewritten
something; never raise them. Other texts have none. `--counts` prints sentences, findings and words
of each file, and the words of `docs`.

It is the project's own, since vale does not read messages (string literals of Python), and its
package on PyPI fetches a binary from a code host when it first runs: `make lint` has to work with
package registries alone.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

COLUMNS = 100
"""How long a line of prose may be. Tables, headings and single addresses may be longer."""

OF_CONTRIBUTORS = ("benchmarks", "tests")
"""Folders whose older texts have findings. Each has one number, so that files may be moved."""

ALLOWANCE = Path(__file__).with_name("prose_allowance.json")


@dataclass(frozen=True)
class Rule:
    """A pattern that reads badly.

    Attributes:
        pattern: what is searched in each sentence, without regard to case.
        advice: what to write instead.
        examples: sentences that it must find; `tests/meta/test_prose.py` tries them.
    """

    pattern: str
    advice: str
    examples: tuple[str, ...]

    def found(self, sentence: str) -> str | None:
        match = re.search(self.pattern, sentence, re.IGNORECASE)
        return None if match is None else match[0]


RULES = (
    # A clause as the subject.
    Rule(
        r"^(?:who|whoever|whose|what|whatever|that which|those who)\b(?!.*\?)",
        "name the subject: 'If the writer dies ...', 'A waiter that ...'",
        ("Who dies while it writes has written or not.", "What is held is released."),
    ),
    Rule(
        r"(?:;|:|, and|, but|\bbut|\band) who(?:ever)?\b(?! (?:can|may|should) )",
        "name the subject",
        ("One leads, and who waits is next.",),
    ),
    Rule(r"\bwhoever\b", "name the actor", ("It is sent by whoever leads.",)),
    Rule(
        r"^to \w+(?: [\w']+){0,4} (?:is|takes|costs|needs) ",
        "name the actor: '`ack()` is ...'",
        ("To acknowledge is one transaction.",),
    ),
    # Word order and idioms of another language.
    Rule(
        r"\bspeaks? against\b|\bfor ever\b|\banew\b|\bleaves bare\b|\bunless given\b|\bof late\b"
        r"|\bthe like\b|\bby and by\b|\bnot but\b|\bbe it\b|\bsees to it\b|\bhas \w+ called\b"
        r"|\bfrom afar\b|\bhas an end\b|\bthat long\b(?! as)|\bas it comes\b",
        "write the plain word: 'again', 'forever', 'defaults to'",
        ("Nothing speaks against doing it again.", "It is made anew."),
    ),
    Rule(
        r"\bthat one\b(?=[.,;:)]|$| (?:is|was|has|had|says|goes|does|may|can|will)\b)"
        r"|\bsuch a one\b|\bthose of others\b|\bthe one of\b",
        "repeat the noun",
        ("It ends when that one says so.",),
    ),
    # Programs do not talk, and are not men.
    Rule(
        r"\b(?:is|are|was|were|be|been|being|gets?|not|it|and) told\b|\btold of\b"
        r"|\btells? (?!apart|you\b)",
        "emit, report, notify, return, show",
        ("A tenure is told as over.", "The server tells the client."),
    ),
    Rule(r"\bhears?\b|\bheard\b", "receive, observe", ("It has heard nothing.",)),
    Rule(r"\b(?:he|him|his|she|hers)\b", "it, its", ("The holder and his server.",)),
    # Standard terms.
    Rule(
        r"\bin line\b(?! (?:with\b|\d))|\bline of contenders\b"
        r"|\b(?:end|front|head|back) of the line\b"
        r"|\bthe line (?:is|has|moves|behind|before|ahead|itself)\b",
        "queue, contender queue",
        ("It gets in line.", "The line of contenders.", "The line has ten contenders."),
    ),
    Rule(r"\bseams?\b", "client interface (`aiolead.abc`)", ("Recipes see the seam.",)),
    Rule(
        r"\b(?:the|a|its|lost|broken|silent|new|old|each|every|no|one) links? (?:is|was|are|were|br"
        r"|lost|to (?:a|the) server|that (?:is|was|has))|\bblack-holed links?\b",
        "connection",
        ("When the link is lost.",),
    ),
    Rule(r"\bcuts? off\b", "partitioned, isolated", ("A server that is cut off.",)),
    Rule(
        r"\bdebts?\b|\bowes?\b|\bowed\b",
        "pending delete; clean up in the background",
        ("The client pays its debts.",),
    ),
    Rule(r"\bstrangers?\b", "unrecognized child, foreign contender", ("A stranger is skipped.",)),
    Rule(r"\bkin\b|\bkinds? of things?\b", "type, role", ("The lock and its kin.",)),
    Rule(
        r"\blets? go\b|\bletting go\b|\bgives? (?:it|them|the lock|a lock|leadership|the role) up\b"
        r"|\bgives? up (?:the|a|its) (?:lock|lead|role|term|hold|permit)",
        "release; resign (leadership)",
        ("It lets go of the lock.",),
    ),
    Rule(
        r"\bwind-down\b|\bwinds? down\b|\brides? out\b|\bsurrenders?\b",
        "grace period; keep; resign",
        ("It rides out an outage.",),
    ),
    Rule(r"\blook(?:s|ing)? ahead\b", "look-ahead watch", ("The client looks ahead.",)),
    Rule(
        r"\bwho (?:holds|waits|acquires|has it)\b(?!.*\?)|\bwhat is held\b|\bwho leads by then\b",
        "the current leader, the holder, the contenders, the held lock",
        ("It says who holds it.", "It ends what is held."),
    ),
)

HEADING = Rule(
    r"^(?:what|who|where|that)\b(?!.*\?)",
    "a noun phrase or a task that a reader would search for",
    ("What does",),
)


@dataclass(frozen=True)
class Finding:
    file: Path
    line: int
    found: str
    advice: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.found!r}: {self.advice}"


@dataclass(frozen=True)
class Sentence:
    """A sentence without its code and addresses, and the line where its paragraph begins."""

    line: int
    text: str
    is_heading: bool = False

    def findings(self, file: Path) -> Iterator[Finding]:
        for rule in (HEADING,) if self.is_heading else RULES:
            if found := rule.found(self.text):
                yield Finding(file, self.line, found, rule.advice)


_FENCE = re.compile(r"^ *(?:```|~~~)")
_ITEM = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+")
_RULER = re.compile(r"\|[\s|:-]+$")
_END = re.compile(r"(?<=[.!?])[)*_\"]*\s+(?=[A-Z`\"(*_])|;\s+")
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx|No)\.")


def plain(text: str) -> str:
    """A text without code, emphasis and addresses."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``.+?``|`[^`]*`", "CODE", text)
    text = re.sub(r"\"[^\"]{1,60}\"", "QUOTE", text)
    return re.sub(r"[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}", "", text)


def split(line: int, text: str) -> Iterator[Sentence]:
    text = _ABBREVIATIONS.sub(r"\1", plain(text))
    for sentence in _END.split(" ".join(text.split())):
        if len(sentence.split()) > 1:
            yield Sentence(line, sentence.strip())


def of_markdown(text: str) -> Iterator[Sentence]:
    """The sentences of a page: of its paragraphs, items, headings and the cells of its tables."""
    paragraph: list[str] = []
    begun = 0
    in_code = in_comment = False

    def flush() -> Iterator[Sentence]:
        if paragraph:
            yield from split(begun, " ".join(paragraph))
            paragraph.clear()

    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if _FENCE.match(line):
            in_code = not in_code
        if line.startswith("<!--"):
            in_comment = True
        if (
            in_code
            or in_comment
            or _FENCE.match(line)
            or (line.startswith("    ") and not paragraph)
        ):
            yield from flush()
            in_comment = in_comment and "-->" not in line
        elif line.startswith("#"):
            yield from flush()
            yield Sentence(number, plain(line.lstrip("# ")), is_heading=True)
        elif line.startswith("|"):
            yield from flush()
            if _RULER.match(lines[number] if number < len(lines) else ""):
                continue  # the heads of the columns
            for cell in line.strip("|").split(" | "):
                if len(plain(cell).split()) > 3:
                    yield from split(number, cell.strip(" |"))
        elif not line.strip():
            yield from flush()
        else:
            if _ITEM.match(line):
                yield from flush()
            if not paragraph:
                begun = number
            paragraph.append(_ITEM.sub("", line))
    yield from flush()


def of_messages(text: str) -> Iterator[Sentence]:
    """The sentences of messages: of string literals with four words or more, but docstrings."""
    inside: set[ast.AST] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr):
            inside.add(node.value)
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            parts = (
                part.value if isinstance(part, ast.Constant) else "CODE" for part in node.values
            )
            literal = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            literal = node.value
        else:
            continue
        if len(literal.split()) >= 4:
            yield from split(node.lineno, literal)


def of_python(text: str) -> Iterator[Sentence]:
    """The sentences of docstrings, comments and messages."""
    yield from of_messages(text)
    comment: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment.append((token.start[0], token.string.lstrip("#: ")))
        elif token.type == tokenize.STRING and token.string.lstrip("rRfF").startswith('"""'):
            body = token.string.lstrip("rRfF").strip('"')
            for found in re.finditer(r"(?:.+\n?)+", re.sub(r"^\s+$", "", body, flags=re.MULTILINE)):
                start = token.start[0] + body.count("\n", 0, found.start())
                for item in re.split(r"\n(?=\s*(?:[*-] |\w+: |[A-Z]\w+:$))", found[0]):
                    yield from split(start, re.sub(r"^\s*(?:[*-]|\w+:) ", "", item))
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT) and comment:
            yield from split(comment[0][0], " ".join(words for _, words in comment))
            comment.clear()


def too_long(file: Path, text: str) -> Iterator[Finding]:
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            in_code = not in_code
        # A line without a space inside cannot be wrapped.
        words = _ITEM.sub("", line).split()
        may = in_code or line.startswith(("|", "#", "    ", "<!--")) or len(words) < 2
        if len(line) > COLUMNS and not may:
            yield Finding(file, number, f"{len(line)} columns", f"wrap at {COLUMNS}")


def pages() -> list[Path]:
    """Every page."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    found += (ROOT / "benchmarks").glob("*.md")
    return sorted(found)


def modules() -> list[Path]:
    folders = ("aiolead", "examples", *OF_CONTRIBUTORS)
    return sorted(path for name in folders for path in (ROOT / name).rglob("*.py"))


def check(file: Path) -> tuple[list[Sentence], list[Finding]]:
    """The sentences of a file, and what is found in them."""
    text = file.read_text("utf-8")
    name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    if file.suffix == ".md":
        sentences = list(of_markdown(text))
        return sentences, [
            *(each for sentence in sentences for each in sentence.findings(name)),
            *too_long(name, text),
        ]
    sentences = list(of_python(text))
    return sentences, [each for sentence in sentences for each in sentence.findings(name)]


def budget(name: str) -> str:
    """Whose allowance counts for a file: its own, or that of its folder in `OF_CONTRIBUTORS`."""
    top = name.partition("/")[0]
    return top if top in OF_CONTRIBUTORS else name


def by_budget(counts: dict[str, int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name, count in counts.items():
        found[budget(name)] += count
    return dict(found)


def over(counts: dict[str, int], allowance: dict[str, int]) -> dict[str, int]:
    """The files or folders with more findings than they may have, and how many more."""
    extra = {name: count - allowance.get(name, 0) for name, count in by_budget(counts).items()}
    return {name: count for name, count in extra.items() if count > 0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--write-allowance", action="store_true")
    options = parser.parse_args()
    files = [file.resolve() for file in options.files] or [*pages(), *modules()]
    allowance = json.loads(ALLOWANCE.read_text("utf-8"))
    found = {file.relative_to(ROOT).as_posix(): check(file) for file in files}
    counts = {name: len(findings) for name, (_, findings) in found.items()}
    words = {
        name: sum(len(each.text.split()) for each in sentences)
        for name, (sentences, _) in found.items()
    }
    if options.write_allowance:
        lower = {n: min(count, allowance.get(n, 0)) for n, count in by_budget(counts).items()}
        kept = {name: count for name, count in sorted(lower.items()) if count}
        ALLOWANCE.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        return 0
    wrong = over(counts, allowance)
    for name, (sentences, findings) in found.items():
        if options.counts:
            print(f"{len(sentences):6} {len(findings):4} {words[name]:6}  {name}")
        elif budget(name) in wrong or options.files:
            print(*findings, sep="\n", end="\n" if findings else "")
    if options.counts:
        of_docs = sum(count for name, count in words.items() if name.startswith("docs/"))
        print(f"{of_docs} words in docs", file=sys.stderr)
    total = sum(len(sentences) for sentences, _ in found.values())
    print(f"{total} sentences, {sum(counts.values())} findings", file=sys.stderr)
    for name, count in wrong.items():
        print(f"{name}: {count} more than it may have", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
