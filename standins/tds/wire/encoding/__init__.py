"""Values, types and tokens as bytes, and back."""
