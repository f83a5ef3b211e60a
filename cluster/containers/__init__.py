"""Engine `docker`: nodes are containers of one generated Compose project.

compose/node.yml hardens the node that all others extend; compose_file.py adds rank, network and
limits.
"""
