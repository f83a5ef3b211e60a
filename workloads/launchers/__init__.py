"""One module for each library that can run the workers; workloads/comm/rendezvous.py has what they all give."""
