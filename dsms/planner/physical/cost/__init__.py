"""The cost model of PIPES (Krämer's thesis, chapter 22): estimates the streams between operators and the state of
operators from a few measured numbers."""
