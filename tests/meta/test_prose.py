"""Pages, docstrings, comments and messages keep the prose rules; each rule finds its examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit.checks import check_each
from tools.check_prose import (
    ALLOWANCE,
    COLUMNS,
    HEADING,
    ROOT,
    RULES,
    Sentence,
    budget,
    check,
    modules,
    of_markdown,
    of_python,
    over,
    pages,
    too_long,
)

MAY = json.loads(ALLOWANCE.read_text("utf-8"))


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.exhaustive("`make lint`, with which `make test` begins, does the same")
@check_each("page", pages(), ids=_name)
def test_a_page_is_written_plainly(page: Path) -> None:
    _, findings = check(page)
    assert len(findings) <= MAY.get(_name(page), 0), "\n".join(map(str, findings))


@pytest.mark.exhaustive("`make lint`, with which `make test` begins, does the same")
def test_docstrings_and_comments_are_written_plainly() -> None:
    found = {_name(module): check(module)[1] for module in modules()}
    more = over({name: len(findings) for name, findings in found.items()}, MAY)
    texts = {
        name: [str(f) for file in found if budget(file) == name for f in found[file]]
        for name in more
    }
    assert texts == {}


@check_each("rule", [*RULES, HEADING], ids=lambda rule: rule.advice)
def test_a_rule_finds_its_examples(rule) -> None:
    assert rule.examples
    assert [example for example in rule.examples if not rule.found(example)] == []


@pytest.mark.parametrize(
    "text",
    [
        "If the writer dies, the write was either applied or not.",
        "What happens if the leader dies?",
        "The client reconnects in line 3 of the log.",
        "`ack()` is a single transaction.",
        "Click the link in the page.",
        "A lock that one task holds at a time.",
    ],
)
def test_plain_sentences_pass(text: str) -> None:
    sentence = Sentence(1, text)
    assert list(sentence.findings(Path("page.md"))) == []


def test_code_quotations_and_the_heads_of_columns_are_ignored() -> None:
    page = """# Locks

| what the client does now | what happens then |
|---|---|
| The holder `tells nobody` | see [who holds](x.md) |

```python
# who holds the lock tells nobody
```

<!-- who holds -->
It prints "who holds it".

    who holds it
"""
    found = [each.found for s in of_markdown(page) for each in s.findings(Path("page.md"))]
    assert found == []


def test_sentences_of_paragraphs_items_cells_docstrings_and_comments() -> None:
    page = "One here. Two there\nand on.\n\n* Three items; four\n\n| five six seven eight |\n"
    assert [each.text for each in of_markdown(page)] == [
        "One here.",
        "Two there and on.",
        "Three items",
        "five six seven eight",
    ]
    module = (
        '"""One line.\n\nTwo lines\nhere.\n"""\n\n# A comment\n# of two lines.\nx = "not this"\n'
    )
    assert [each.text for each in of_python(module)] == [
        "One line.",
        "Two lines here.",
        "A comment of two lines.",
    ]


def test_messages_are_sentences_too() -> None:
    module = 'raise ValueError(f"{name}: nobody tells us so, " "as {it} is")\nx = "a short text"\n'
    (message,) = of_python(module)
    assert message.text == "CODE: nobody tells us so, as {it} is"
    assert [each.found for each in message.findings(Path("module.py"))] == ["tells "]


def test_long_lines_of_prose_are_found() -> None:
    words = "word " * COLUMNS
    found = too_long(Path("page.md"), f"{words}\n| {words}|\n\n```text\n{words}\n```\n")
    assert [each.line for each in found] == [1]
