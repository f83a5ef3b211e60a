"""Run folders -> tables: loading, grouping, labels."""
