"""From a line of a file to a padded batch."""
