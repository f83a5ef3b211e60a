"""./measure.sh --live: the report page on loopback, growing while the session runs."""
