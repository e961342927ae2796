"""How attention comes to know order: a file an idea. What adds or turns vectors, and what is added to scores."""
