"""A service for many streams over HTTP and MQTT. An observation that was acknowledged is on disk."""
