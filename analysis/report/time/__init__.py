"""Sections: steps, epochs, scaling, bottlenecks and stragglers."""
