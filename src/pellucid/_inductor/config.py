"""Settings that scripts make; nothing reads them."""

coordinate_descent_tuning = False
