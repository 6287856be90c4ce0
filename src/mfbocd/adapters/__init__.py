"""The outside world, one part of it a file, each an extra: ``pip install 'mfbocd[onnx]'``."""
