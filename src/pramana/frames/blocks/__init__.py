"""Files read and written a block of rows at a time, whose columns are level codes; one module a format."""
