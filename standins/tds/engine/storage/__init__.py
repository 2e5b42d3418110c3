"""What the engine stores: definitions, rows and their versions, transactions, locks."""
