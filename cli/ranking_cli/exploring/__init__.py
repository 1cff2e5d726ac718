"""`ranking explore`: models side by side in one offline page."""
