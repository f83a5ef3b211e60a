"""Clusters that are not gradwire's, of namespaces as hosts, with a measure beside them."""
