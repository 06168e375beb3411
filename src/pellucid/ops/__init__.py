"""The rows: every operation, defined once.

A row carries its forward, its derivative, its batching and its lowering; `publish` adds documentation, method
names and sample inputs for the generated tests. One topic per file; a new operation touches one file.
"""
