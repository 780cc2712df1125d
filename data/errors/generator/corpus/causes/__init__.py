"""One module per cause, each with `messages(rng) -> Iterator[Message]`."""
