"""The language of derivatives and composites: Python expressions become C calls on operators."""
