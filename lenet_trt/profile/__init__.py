"""Record what a network does: the verb ``profile`` and its recorders."""
