"""CuBERT: "Learning and Evaluating Contextual Embedding of Source Code"."""
