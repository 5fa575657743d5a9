"""PERPLEXED and CODETOKENIZERS: "PERPLEXED: Understanding When Large Language Models Are Confused"."""
