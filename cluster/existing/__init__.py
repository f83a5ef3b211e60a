"""Engine `existing`: hosts that are already there."""
