"""Adapters to other libraries, one per module; each is an extra, such as ``pip install 'mfbocd[onnx]'``."""
