"""Step times and bytes on any cluster: an event simulator, and which link is enough."""
