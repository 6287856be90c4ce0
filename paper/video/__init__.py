"""The video experiment: frames and segmentation networks, the stream they give, and what is run on it."""
