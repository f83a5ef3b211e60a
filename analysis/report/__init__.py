"""Runs -> one HTML page: sections by subject, templates, assets."""
