"""The criteria of the labs, a file for each; they run in the process of running.py."""
