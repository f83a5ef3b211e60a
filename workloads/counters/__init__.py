"""What a worker reads of its own node: interface counters, TCP connections, memory."""
