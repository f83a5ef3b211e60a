"""What benchmarks share: a call of ./measure.sh, tables, and the page they are written to."""
