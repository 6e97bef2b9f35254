"""What users call: the client, its operations, transactions, watches and streams."""
