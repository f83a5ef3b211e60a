"""Where a worker computes, and how its time is measured."""
