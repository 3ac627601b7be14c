"""Reading and checking ``csrc/spec``: entries, schemas, tables, and how types are spelled in C."""
