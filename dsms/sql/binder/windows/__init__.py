"""Binds windows: those of streams in FROM, windows as table functions, and OVER."""
