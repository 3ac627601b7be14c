"""The code generator: ``csrc/spec/*.yaml`` to C, Python tables, stubs and reference pages.

It is pure: the same specification gives the same files. ``docs/operators.md`` describes the input,
``docs/architecture.md`` what comes out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from codegen.emit.adapters import emit_adapters
from codegen.emit.aliases import emit_aliases
from codegen.emit.autograd import emit_autograd, plan_autograd
from codegen.emit.dispatch import emit_dispatch
from codegen.emit.emitter import Emitter, GeneratedFiles
from codegen.emit.foreach import emit_foreach, load_foreach
from codegen.emit.forward import emit_forward
from codegen.emit.help import Help
from codegen.emit.kernels import emit_kernels, load_loops
from codegen.emit.protocol import emit_protocol, load_failpoints, load_wire
from codegen.emit.python import emit_python, python_tables
from codegen.emit.reference_pages import emit_docs
from codegen.emit.stubs import emit_stubs
from codegen.emit.tables import emit_tables
from codegen.emit.views import emit_views
from codegen.spec.arguments import load_arguments
from codegen.spec.entries import load_model
from codegen.spec.errors import SpecError
from codegen.spec.tables import load_tables

__all__ = ["GeneratedFiles", "SpecError", "generate"]


def generate(
    spec_dir: Path, out_dir: Path, root: Path, *, check: bool = False, lenient: bool = False
) -> GeneratedFiles:
    """Generate everything.

    Args:
        spec_dir: The directory with the YAML files.
        out_dir: Where C goes, ``build/<configuration>/generated``.
        root: The project's directory; Python tables, stubs and pages go below it.
        check: Write nothing; ``changed`` of the result lists what would be written.
        lenient: Go on after entries whose expressions do not fit, and note them in ``problems``.

    Raises:
        SpecError: The specification is wrong; the message starts with ``file:line:``.
    """
    spec_dir, out_dir, root = Path(spec_dir), Path(out_dir), Path(root)
    tables = load_tables(spec_dir, root)
    model = load_model(spec_dir, root, tables)
    loops = load_loops(spec_dir, root, model, tables)
    wire = load_wire(spec_dir / "wire.yaml", root)
    points = load_failpoints(spec_dir / "failpoints.yaml", root)
    emitter = Emitter(out_dir, root, check=check)
    emit_tables(emitter, tables)
    emit_protocol(emitter, wire, points)
    emit_kernels(emitter, loops, tables)
    emit_foreach(emitter, load_foreach(spec_dir / "foreach.yaml", root, model), loops)
    nodes = plan_autograd(model)
    emit_adapters(emitter, model)
    emit_dispatch(emitter, model, tables)
    emit_autograd(emitter, model, nodes)
    emit_forward(emitter, model)
    emit_views(emitter, model)
    names = python_tables(model)
    arguments = load_arguments(spec_dir / "arguments.yaml", root, model)
    emit_python(emitter, model, names, Help(arguments, nodes, loops, tables).text)
    emit_stubs(emitter, names, [d.name for d in tables.dtypes])
    emit_aliases(emitter)
    emit_docs(emitter, model, tables, nodes, loops, arguments)
    emitter.remove_stale()
    emitter.result.problems = [str(problem) for problem in model.problems]
    if model.problems and not lenient:
        for problem in model.problems[1:]:
            print(problem, file=sys.stderr)
        raise model.problems[0]
    return emitter.result
