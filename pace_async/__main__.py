"""`python -m pace_async`: the command `pace` where its console script is not on the path."""

from pace_async.cli.main import main

if __name__ == "__main__":
    main()
