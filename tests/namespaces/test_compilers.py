"""`jit`, `compiler`, `_dynamo`, `onnx`, `export`: marks are accepted, files are refused.

`compile` is in test_compile.py, `jit.trace` and `jit.script` in test_jit.py, `fx` in tests/fx.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T
from shmtensor import compiler, export, fx, jit, onnx


def double(x: Any) -> Any:
    return x + x


# --- compile -------------------------------------------------------------------------------------


@pytest.mark.check
def test_a_module_has_compile() -> None:
    module = T.nn.Linear(2, 1)
    before = module(T.ones(2))
    assert module.compile() is None and module(T.ones(2)) == before
    with pytest.raises(NotImplementedError, match="compile\\(module, backend"):
        module.compile(backend=lambda graph, inputs: graph)


def test_functions_may_be_kept_from_compilation() -> None:
    assert compiler.disable(double) is double
    assert compiler.disable(recursive=False)(double) is double
    assert not compiler.is_compiling() and not T._dynamo.is_compiling()


# --- jit -----------------------------------------------------------------------------------------


def test_scripts_are_the_functions_themselves() -> None:
    @jit.script
    def triple(x: Any) -> Any:
        return x * 3

    module = T.nn.Linear(2, 2)
    assert triple(2) == 6
    assert jit.script(module).weight is module.weight
    assert not jit.is_scripting() and not jit.is_tracing()


def test_files_of_scripts_are_refused(tmp_path: Any) -> None:
    with pytest.raises(NotImplementedError, match="TorchScript"):
        jit.save(double, tmp_path / "f")
    with pytest.raises(NotImplementedError, match="TorchScript"):
        jit.load(tmp_path / "f")


def test_marks_leave_functions_as_they_are() -> None:
    for mark in (jit.export, jit.unused, jit.ignore, jit.ignore(drop=True), jit.script_method):
        assert mark(double) is double
    assert jit.annotate(int, 3) == 3 and jit.isinstance([1], list[int])

    class Old(jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.scale = jit.Attribute(2.0, float).value

        @jit.script_method
        def forward(self, x: Any) -> Any:
            return x * self.scale

    assert Old()(3) == 6.0


def test_a_frozen_module_is_in_eval_mode() -> None:
    module = T.nn.Dropout()
    with pytest.raises(RuntimeError, match="eval"):
        jit.freeze(module)
    assert jit.freeze(module.eval()) is module


def test_annotations_is_a_module() -> None:
    program = (
        "from shmtensor.jit.annotations import BroadcastingList2\n"
        "import shmtensor\n"
        "shmtensor.jit.annotations.BroadcastingList2[int]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_fork_gives_a_future() -> None:
    assert jit.wait(jit.fork(double, 4)) == 8
    failed = jit.fork(double)
    with pytest.raises(TypeError, match="positional"):
        failed.wait()


# --- fx ------------------------------------------------------------------------------------------


def test_sizes_are_plain_numbers() -> None:
    shapes = importlib.import_module("shmtensor.fx.experimental.symbolic_shapes")
    assert shapes.guard_or_false(True) is True and shapes.statically_known_true(False) is False
    assert shapes.sym_eq([1, 2], (1, 2)) and not shapes.sym_eq([1], [1, 2])
    assert not shapes.free_symbols([T.ones(2), 3]) and shapes.is_concrete_int(3)
    with pytest.raises(AssertionError, match="Expected bool"):
        shapes.guard_or_false(3)
    with pytest.raises(NotImplementedError, match="plain numbers"):
        shapes.ShapeEnv()


def test_collections_of_fx() -> None:
    mapped = fx.node.map_aggregate({"a": [1, (2, 3)], "b": slice(0, 4)}, lambda x: x and x + 1)
    assert mapped == {"a": [2, (3, 4)], "b": slice(0, 5)}
    with pytest.raises(TypeError, match="does not support mutation"):
        mapped["c"] = 1


# --- onnx and export -----------------------------------------------------------------------------


def test_onnx_refuses_to_export() -> None:
    with pytest.raises(NotImplementedError, match="ONNX"):
        onnx.export(T.nn.ReLU(), (T.ones(1),), "file")
    assert not onnx.is_in_onnx_export()


def test_onnx_accepts_registrations() -> None:
    opset = importlib.import_module("shmtensor.onnx.symbolic_opset11")

    @onnx.symbolic_helper.parse_args("v", "i")
    def write(g: Any, x: Any, dim: int) -> Any:
        return opset.squeeze(g, x, dim)

    onnx.register_custom_op_symbolic("own::thing", write, 11)
    onnx.unregister_custom_op_symbolic("own::thing", 11)
    with pytest.raises(onnx.OnnxExporterError, match="domain::name"):
        onnx.register_custom_op_symbolic("thing", write, 11)
    with pytest.raises(NotImplementedError, match="squeeze"):
        write(None, None, 0)
    with pytest.raises(AttributeError, match="no_such"):
        opset.no_such


def test_operators_of_onnx() -> None:
    shape = onnx.operators.shape_as_tensor(T.ones(2, 3))
    assert shape.tolist() == [2, 3] and shape.dtype == T.int64
    assert onnx.operators.reshape_from_tensor_shape(T.ones(6), shape).shape == (2, 3)


def test_export_refuses_and_registers() -> None:
    with pytest.raises(NotImplementedError, match="not exported"):
        export.export(T.nn.ReLU(), (T.ones(1),))
    with pytest.raises(NotImplementedError, match="not exported"):
        export.Dim("batch")


def test_quantisation_stubs_pass_on() -> None:
    x = T.ones(2)
    for name in ("QuantStub", "DeQuantStub"):
        assert getattr(T.ao.quantization, name)()(x) is x
    wrapped = T.ao.quantization.QuantWrapper(T.nn.ReLU().eval())
    assert wrapped(-x).sum() == 0 and not wrapped.training
    with pytest.raises(NotImplementedError, match="quantised"):
        T.ao.quantization.prepare(wrapped)


EXPRESSIONS = """
m.jit.is_scripting(), m.jit.is_tracing(), m.compiler.is_compiling(), m.compiler.is_exporting()
m.jit.annotate(int, 3)
m.jit.wait(m.jit.fork(lambda a: a * 2, 4))
m.compile(abs, mode='a', options={'b': 1})
m.fx.node.map_arg([1, 2], 3)
m.onnx.is_in_onnx_export(), int(m.onnx.TensorProtoDataType.BFLOAT16), int(m.onnx.TensorProtoDataType.STRING)
m.onnx.operators.shape_as_tensor(m.ones(2, 3))
m.fx.experimental.symbolic_shapes.guard_or_false(True), m.fx.experimental.symbolic_shapes.guard_int(3)
m.fx.experimental.symbolic_shapes.sym_eq([1, 2], (1, 2)), m.fx.experimental.symbolic_shapes.sym_eq(1, 2)
m.fx.experimental.symbolic_shapes.sym_or(False, True), m.fx.experimental.symbolic_shapes.sym_and(True, False)
m.ao.quantization.QuantStub(), m.ao.quantization.QuantStub()(3)
m._higher_order_ops.associative_scan(lambda a, b: a + b, m.arange(6.).reshape(2, 3), 1, False, 'generic')
m._higher_order_ops.associative_scan(lambda a, b: a * b, m.arange(1., 7).reshape(2, 3), 0, True, 'generic')
m._higher_order_ops.associative_scan(3, m.ones(2), 0)
m._higher_order_ops.associative_scan(abs, m.ones(2), 0, combine_mode='a')
m._higher_order_ops.scan(lambda c, x: (c + x, c * x), m.zeros(3), m.ones(2, 3))
m._higher_order_ops.scan(lambda c, x: (c + x, c * x), m.ones(2), m.arange(6.).reshape(2, 3), dim=1, reverse=True)
m._higher_order_ops.map(lambda x, k: x.sum() + k, m.arange(6.).reshape(2, 3), m.tensor(1.))
"""  # noqa: E501


def test_outcomes_are_torch_s() -> None:
    modules = ["onnx", "_higher_order_ops", "ao.quantization", "fx.experimental.symbolic_shapes"]
    assert differences(EXPRESSIONS, modules=modules) == []


def test_scans_have_derivatives() -> None:
    x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
    T._higher_order_ops.associative_scan(lambda a, b: a * b, x, 0)[-1].backward()
    assert x.grad is not None and x.grad.tolist() == [6.0, 3.0, 2.0]
