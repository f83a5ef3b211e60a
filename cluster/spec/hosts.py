"""How hosts that are already there are reached: settings of host launchers, not of a run."""

from cluster.spec.documents.codec import Amount, Document

PATIENCE_S = 600.0


class HostOptions(Document):
    """Beside the launcher's name; null where it does not apply."""

    spark_master: str | None = None
    """`--spark-master`."""
    ray_address: str | None = None
    """`--ray-address`."""
    slurm_partition: str | None = None
    """`--slurm-partition`."""
    slurm_account: str | None = None
    """`--slurm-account`."""
    slurm_time: str | None = None
    """`--slurm-time`: the job's limit."""
    image: str | None = None
    """`--image`: the container image in which workers run."""
    host_python: str | None = None
    """`--host-python`: Python on the hosts; null for this one's path."""
    patience_s: Amount = PATIENCE_S
    """`--patience`: how long to wait for hosts."""
