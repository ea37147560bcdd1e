"""A helper that stays up: one process at the door of many studies, and a process for each study that runs."""
