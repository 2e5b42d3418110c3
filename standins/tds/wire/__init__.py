"""TDS on a socket: packets, login, requests and answers."""
