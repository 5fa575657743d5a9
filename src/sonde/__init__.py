"""sonde: what does a language model of code know, where does it keep it, and how sure can we be?"""

__version__ = "0.1.0"
