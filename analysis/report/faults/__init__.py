"""Sections: what faults cost, and who came last to exchanges."""
