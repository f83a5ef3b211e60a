"""Step times and bytes on any cluster, by a cost model fitted to measured runs."""
