"""Engine `netns`: nodes are Linux network namespaces on one bridge."""
