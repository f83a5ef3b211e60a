"""How workers exchange: strategies, codecs, outer optimisers and the algorithms made of them."""
