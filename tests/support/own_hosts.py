"""Addresses of network namespaces that tests have made on this machine, which tests may reach as they do loopback."""

OWN_HOSTS: set[str] = set()
