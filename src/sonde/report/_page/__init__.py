"""The page: its top and foot, its template, and the tables beside it."""
