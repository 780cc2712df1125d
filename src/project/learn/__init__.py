"""Loss, plan, optimizer and scheduler; both twins use them."""
