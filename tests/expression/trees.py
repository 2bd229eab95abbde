"""Random expression trees for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from kuiperinfer.expression import FUNCTIONS, Call, Expression, ListNode, Literal, Operand

_numbers = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.floats(width=32)
    | st.complex_numbers(allow_nan=True, allow_infinity=True)
)
_words = st.sampled_from(["a", "torch.strided", "2d", "x-y/z:0", "ij->ji", "für", "true"])
_leaves = st.builds(Operand, st.integers(0, 20)) | st.builds(Literal, _numbers | st.none())


def _calls(arguments: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    by_arity = {
        count: st.sampled_from([name for name, row in FUNCTIONS.items() if row.arity_error(count) is None])
        for count in (1, 2)
    }
    return st.builds(Call, by_arity[1], st.tuples(arguments)) | st.builds(
        Call, by_arity[2], st.tuples(arguments, arguments)
    )


terms: st.SearchStrategy[Expression] = st.recursive(_leaves, _calls, max_leaves=20)
_items = st.recursive(
    terms | st.builds(Literal, _words),
    lambda items: st.builds(ListNode, st.lists(items, max_size=4).map(tuple)),
    max_leaves=10,
)
trees: st.SearchStrategy[Expression] = _items
