"""What a worker reads of its own node: interfaces, TCP connections, memory."""
