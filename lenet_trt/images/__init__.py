"""Images from files into a network that classifies them: what it takes, the readers, and class probabilities."""
