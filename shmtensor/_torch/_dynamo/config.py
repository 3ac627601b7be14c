"""Settings of the tracer, which keep their values.

Source:
    torch._dynamo.config.
"""

from __future__ import annotations

verbose = False
suppress_errors = False
disable = False
cache_size_limit = 8
recompile_limit = 8
accumulated_cache_size_limit = 256
dynamic_shapes = True
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
allow_unspec_int_on_nn_module = False
inline_inbuilt_nn_modules = True
optimize_ddp = True
