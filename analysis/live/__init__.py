"""The page of the live view: the report's template, styles and figures, before there are points."""
