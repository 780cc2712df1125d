"""What is learned and how: loss, plan, optimizer and scheduler. Shared by the twins."""
