"""Probes: small models that read a property from frozen states; torch is imported on use alone."""
