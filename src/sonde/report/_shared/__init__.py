"""What the sections of all lenses share: the run as they read it, their protocol, their numbers."""
