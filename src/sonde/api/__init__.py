"""Behind `import sonde`: runs, and what can be had without one; each name is reached as ``sonde.NAME``."""
