"""From a row of a file to a batch."""
