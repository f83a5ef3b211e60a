"""Engine `docker`: nodes are containers of one generated Compose project.

compose/node.yml hardens the node; compose_file.py adds rank, network and limits.
"""
