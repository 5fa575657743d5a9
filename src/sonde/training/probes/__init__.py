"""Probes: small models that read a property from frozen states; importing the package imports no torch."""
