"""A party's life in a study, from its identity to its results."""
