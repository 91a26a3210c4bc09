"""Read images from files for a network that classifies them: their form, the readers, and class probabilities."""
