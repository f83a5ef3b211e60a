"""A client of the Docker engine that the `docker` command uses."""

import os
import subprocess
from typing import Any


def client() -> Any:
    """A docker.DockerClient; a Docker context may name another engine than the default."""
    import docker

    host = os.environ.get("DOCKER_HOST")
    if not host:
        command = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
        host = subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    return docker.DockerClient(base_url=host, timeout=30)
