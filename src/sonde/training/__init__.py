"""Training: pre-training by recipe, fine-tuning, probes, erasure and the tuned lens."""
