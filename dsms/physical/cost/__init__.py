"""The cost model of PIPES (Krämer's thesis, chapter 22): what streams between operators look like, and what operators
keep in state, derived from a few measured numbers."""
