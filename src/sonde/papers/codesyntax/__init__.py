"""CodeSyntax: "Benchmarking Language Models for Code Syntax Understanding"."""
