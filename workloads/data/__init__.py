"""Data sets: files, readers, shards and batches."""
