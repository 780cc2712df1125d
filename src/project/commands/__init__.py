"""What every command needs: run folders, which checkpoint is meant, what is shown."""
