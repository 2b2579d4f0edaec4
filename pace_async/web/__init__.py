"""Pages about runs for a browser, made of rows alone. The server only reads: it is a process of its own."""
