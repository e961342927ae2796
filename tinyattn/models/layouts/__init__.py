"""Layouts: the names and shapes that other libraries' files give to the parameters of a model, one layout per file."""
