"""The page at /: what is loaded and how fast it answers, and a form to try pictures. Its files are read once, at the start."""

from .routes import page_routes

__all__ = ["page_routes"]
