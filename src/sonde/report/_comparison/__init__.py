"""The page of a comparison: what got better, what got worse, where no difference was found."""
