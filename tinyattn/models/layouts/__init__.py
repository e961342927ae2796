"""Layouts: the names and shapes that other libraries' files give to the parameters of a model, a file a layout."""
