"""Sections: accuracy against bytes, correlation, consensus, shards."""
