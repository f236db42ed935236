"""Runs that are a directory: an event log, a manifest and their side files (formats/rivumi.md).

Pure: everything here works on bytes that were read. What touches a directory is `core.store.session_files`.
"""
