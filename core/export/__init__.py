"""A run written out for somebody else: pure writers, each a stream of text. Files: `core.store.export`."""
