#!/bin/sh
# Start a command of a Spark node with the secret of its cluster (spark.authenticate):
#
#   sh with_secret.sh COMMAND...
#
# The first node to start makes the secret, in memory that all nodes of the cluster mount at /secret.
# Each node adds it to its own copy of spark-defaults.conf, in SPARK_CONF_DIR.
set -eu

if [ ! -e /secret/key ]; then
    new=$(mktemp /secret/XXXXXX)
    head -c 32 /dev/urandom | sha256sum | cut -c 1-64 >"$new"
    ln "$new" /secret/key 2>/dev/null || true    # fails where another node was first
    rm "$new"
fi
mkdir -p "$SPARK_CONF_DIR"
{
    cat /etc/spark/spark-defaults.conf
    echo "spark.authenticate.secret $(cat /secret/key)"
} >"$SPARK_CONF_DIR/spark-defaults.conf"
exec "$@"
