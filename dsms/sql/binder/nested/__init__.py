"""Binds subqueries in expressions and in FROM, correlated ones too."""
