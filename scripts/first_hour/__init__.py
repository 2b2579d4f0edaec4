"""What to run first on a machine with a card. See `scripts/first_hour.sh`."""
