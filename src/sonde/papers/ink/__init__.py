"""INK and PyINK: "Probing API Name Knowledge in Pre-trained Code Models"."""
