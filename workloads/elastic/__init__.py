"""A worker that goes on without others, and comes back: --on-failure continue."""
