"""Which nodes of a run train together, and how it goes on without one: --on-failure continue."""
