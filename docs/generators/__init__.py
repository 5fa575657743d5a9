"""Write the pages of the site that are generated from the code, one module a page."""
