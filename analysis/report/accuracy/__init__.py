"""Sections: accuracy against bytes, correlation, consensus distance, label skew."""
