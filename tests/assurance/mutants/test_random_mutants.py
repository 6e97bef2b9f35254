"""Random mutants are what their operators say."""

from __future__ import annotations

import ast

from assurance.mutants.edit import span_of, spliced
from assurance.mutants.operators import WEIGHTS, mutations


def test_each_operator_changes_the_code_that_it_is_for() -> None:
    text = '''
class A:
    """An example."""

    async def f(self, x: int = 1) -> bool:
        """Do."""
        if not x or self.y:
            self.y = max(x, 2)
            g(x)
        try:
            await h(x - 1)
        finally:
            k()
        return x == 2 and self.z is True
'''
    found = list(mutations(ast.parse(text)))
    assert {each.operator for each in found} == set(WEIGHTS)
    for each in found:
        span = span_of(text, each.nodes[0], each.nodes[-1], is_statement=each.is_statement)
        new = ast.parse(spliced(text, span, each.new))
        assert ast.dump(new) != ast.dump(ast.parse(text)), each
