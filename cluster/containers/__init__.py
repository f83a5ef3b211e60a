"""Engine `docker`: nodes are containers of one generated Compose project."""
