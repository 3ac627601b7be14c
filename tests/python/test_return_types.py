"""The named tuples that operators return."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import shmtensor as st


def test_text_names_every_field_on_a_line() -> None:
    result = st.tensor([[1.0, 2.0]]).max(1)
    assert repr(result) == ("torch.return_types.max(\nvalues=tensor([2.]),\nindices=tensor([1]))")


def test_function_and_method_return_one_type() -> None:
    a = st.rand(3, 3)
    assert type(a.max(1)) is type(st.max(a, 1))
    values, indices = a.max(1)
    assert st.equal(a.max(1).values, values)
    assert st.equal(a.max(1)[1], indices)


def test_results_are_copied_and_pickled() -> None:
    result = st.tensor([[3.0, 1.0], [2.0, 5.0]]).sort(1)
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert type(again) is type(result)
        assert st.equal(again.values, result.values)


def test_results_are_unpickled_where_the_operator_was_never_called() -> None:
    data = pickle.dumps(st.tensor([[3.0, 1.0]]).median(1))
    program = f"import pickle; print(pickle.loads({data!r}).values.item())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1.0\n"


def test_histogramdd_names_its_results() -> None:
    result = st.histogramdd(st.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2])
    assert repr(result).startswith("torch.return_types.histogramdd(\nhist=")
    assert len(result.bin_edges) == 2
