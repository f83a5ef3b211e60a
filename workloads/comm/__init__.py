"""How workers exchange tensors: rounds, messages, exchange algorithms, buckets, codecs."""
