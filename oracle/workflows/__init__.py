"""What joins both halves, running models and reading records, as functions with typed results."""
