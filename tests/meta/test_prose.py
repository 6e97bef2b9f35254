"""Each rule of `tests/tools/check_prose.py`, which `make lint` runs, finds its examples."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.checks import check_each
from tools.check_prose import COLUMNS, HEADING, RULES, Sentence, of_markdown, of_python, too_long


@check_each("rule", [*RULES, HEADING], ids=lambda rule: rule.advice)
def test_rule_finds_its_examples(rule) -> None:
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


def test_code_quotations_and_heads_of_columns_are_ignored() -> None:
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


def test_texts_are_split_into_sentences() -> None:
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


def test_messages_are_checked() -> None:
    module = 'raise ValueError(f"{name}: nobody tells us so, " "as {it} is")\nx = "a short text"\n'
    (message,) = of_python(module)
    assert message.text == "CODE: nobody tells us so, as {it} is"
    assert [each.found for each in message.findings(Path("module.py"))] == ["tells "]


def test_long_lines_of_prose_are_found() -> None:
    words = "word " * COLUMNS
    found = too_long(Path("page.md"), f"{words}\n| {words}|\n\n```text\n{words}\n```\n")
    assert [each.line for each in found] == [1]
