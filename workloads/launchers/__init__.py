"""One module for each library that can run the workers; workloads/meeting.py has what they all give."""
