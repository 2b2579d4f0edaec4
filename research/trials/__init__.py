"""Whether learning pays: the plan of the trials, their figures, and the page that tells them."""
