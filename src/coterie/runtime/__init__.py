"""What runs a role: on given channels; all roles of a run on this machine, as threads or as processes over TLS."""
