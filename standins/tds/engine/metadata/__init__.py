"""What clients ask about the server and its objects: views, procedures, functions."""
