"""`python -m pramana` is the command line."""

from pramana.cli import main

if __name__ == "__main__":
    main()
