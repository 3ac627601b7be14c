"""Settings of compilation, which keep their values.

Source:
    torch.compiler.config.
"""

from __future__ import annotations

job_id: str | None = None
log_file_name: str | None = None
verbose = False
recompile_limit = 8
accumulated_recompile_limit = 256
fail_on_recompile_limit_hit = False
force_disable_caches = False
dynamic_shapes = True
assume_static_by_default = True
automatic_dynamic_shapes = True
allow_unspec_int_on_nn_module = False
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
