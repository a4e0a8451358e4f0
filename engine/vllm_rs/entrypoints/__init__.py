"""Ways into the server from Python: each hands over to the native binary."""
