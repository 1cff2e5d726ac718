"""Types of data (see `ranking.data.kinds`), validated on construction, and their readers."""
