"""What Python code can do with pace: the names of `import pace_async`. The command line calls the same code."""
