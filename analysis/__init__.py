"""Afterwards: run folders -> tables -> figures -> one page."""
