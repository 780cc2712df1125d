"""Do the twins agree: runs both, reads what they left behind, and says where they part."""
