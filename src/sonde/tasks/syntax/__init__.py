"""What the words and spans of a program are to each other."""
