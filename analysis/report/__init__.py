"""Tables -> one HTML page."""
