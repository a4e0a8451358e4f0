"""The real binary over the mock engine: no model, no network."""
