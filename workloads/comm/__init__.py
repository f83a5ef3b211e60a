"""How workers exchange tensors: rendezvous, messages, buckets, codecs."""
