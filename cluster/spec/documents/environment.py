"""environment.json: what a run was made with."""

from dataclasses import field

from cluster.spec.documents.codec import SCHEMA, Count, Document, Options


class Environment(Document):
    """environment.json: the machine, the software and the command."""

    schema: int = SCHEMA
    """Version of the document."""
    command: list[str]
    """The command line that made the session, word by word."""
    engine: Options
    """`name`, and facts of the engine: version, image, how CPU and memory are limited."""
    commit: str | None = None
    """Commit of the checkout, with `+` where files differ from it; null outside of one."""
    kernel: str | None = None
    """Release of the Linux kernel."""
    system: str | None = None
    """Operating system, as Python's `platform.platform()`."""
    machine: str | None = None
    """Architecture, such as x86_64."""
    cpu: str | None = None
    """Model of the CPU."""
    cores: Count | None = None
    """CPU cores."""
    memory_bytes: Count | None = None
    """Memory."""
    python: str | None = None
    """Version of Python."""
    packages: dict[str, str | None] = field(default_factory=dict)
    """Versions of the packages that matter; null where one is not installed."""
