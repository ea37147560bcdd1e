"""All roles on this machine: as threads, or as processes over TLS on loopback."""
