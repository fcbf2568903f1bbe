"""A file as a stream of blocks whose columns are level codes, whatever its format."""
