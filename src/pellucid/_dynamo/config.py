"""Settings that scripts make; nothing reads them."""

suppress_errors = False
verbose = False
