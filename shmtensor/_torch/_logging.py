"""Which steps of compiling are logged; nothing is compiled here, so none is.

Source:
    torch._logging.
"""

from __future__ import annotations

__all__ = ["set_logs"]

_LEVELS = frozenset(
    "all aot autograd c10d ddp distributed dtensor dynamic dynamo export fsdp inductor onnx".split()
)
_ARTIFACTS = frozenset(
    """
    aot_graphs aot_joint_graph autotuning benchmarking bytecode caching compiled_autograd
    compiled_autograd_verbose compute_dependencies cudagraph_static_inputs cudagraphs ddp_graphs
    fusion graph graph_breaks graph_code graph_code_verbose graph_region_expansion graph_sizes
    guards hierarchical_compile incremental inductor_metrics ir_post_fusion ir_pre_fusion
    kernel_code onnx_diagnostics output_code overlap perf_hints post_grad_graphs pre_grad_graphs
    recompiles recompiles_verbose schedule side_effects sym_node trace_bytecode trace_call
    trace_source
    """.split()
)


def set_logs(*, modules: dict[str, int | bool] | None = None, **names: int | bool | None) -> None:
    """Say what is to be logged: none of it happens here.

    Args:
        modules: Levels of modules.
        **names: Levels of parts, and which of their steps are shown.

    Raises:
        TypeError: There is no such part or step.

    Source:
        torch._logging.set_logs.
    """
    for name in names:
        if name not in _LEVELS and name not in _ARTIFACTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
