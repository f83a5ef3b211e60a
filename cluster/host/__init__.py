"""What measure uses of this host: signals, control groups, folders, what it owns."""
