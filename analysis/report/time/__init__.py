"""Sections: steps, epochs, scaling, bottlenecks."""
