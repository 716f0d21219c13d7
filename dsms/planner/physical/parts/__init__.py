"""Queries that several fragments run together. Each fragment runs one shard (`Share`) of the keys, and links carry
elements between shards.
"""
