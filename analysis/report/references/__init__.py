"""Sections: predictions and published tables beside the runs."""
