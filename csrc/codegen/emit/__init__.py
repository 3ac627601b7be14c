"""Writing: C, Python tables, stubs and reference pages from the checked specification."""
