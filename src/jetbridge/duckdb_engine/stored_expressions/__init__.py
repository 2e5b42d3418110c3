"""Checks and evaluates CHECK, DEFAULT, GENERATED and USING expressions."""
