"""The client of the schema registry, and the codecs of records that need schemas."""
