"""Sections: who sends how much to whom, over time, and how well links are used."""
