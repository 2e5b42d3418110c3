"""What clients ask for once they are logged in, and the answers."""
