"""Virtual workers (--virtual): all workers of a run are models in one process on one node.

They train as real ones do, with the same code; exchanges are copies in memory. Bytes are those of
the message schedule, times those of the simulator: both are predictions, and are marked as such.
"""

MOST_REAL_WORKERS = 256
"""Nodes of their own."""
MOST_WORKERS = 4096

IN_MEMORY = "virtual workers, whose exchanges are copies in memory"
ONE_NODE = "virtual workers, which share one node and its CPU"
REFUSED = {
    "cpus": ONE_NODE,
    "straggler": ONE_NODE,
    "on_failure=continue": f"{ONE_NODE}: it fails as a whole",
    "fault": f"{ONE_NODE}: faults are of nodes",
    "storm": f"{ONE_NODE}: faults are of nodes",
    "gpu": "virtual workers, which compute on the CPU",
    "timeline": IN_MEMORY,
    "overlap": f"{IN_MEMORY}: it would change times alone",
    "bucket_mb": f"{IN_MEMORY}: it would change times alone",
    "strategy=ddp": f"{IN_MEMORY}, which DistributedDataParallel cannot use; allreduce is the same"
    " average",
}
"""Option, or option=value -> what it does not apply to."""
