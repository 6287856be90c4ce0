"""Where the service keeps its streams: SQLite or PostgreSQL."""
