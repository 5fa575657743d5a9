"""INSPECT: "INSPECT: Intrinsic and Systematic Probing Evaluation for Code Transformers"."""
