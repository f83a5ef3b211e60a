"""On the path of users' programs: gradwire_events, and what Python imports before a program."""
