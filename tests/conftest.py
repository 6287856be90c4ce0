"""Set-up every test shares."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("mfbocd", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("mfbocd")
