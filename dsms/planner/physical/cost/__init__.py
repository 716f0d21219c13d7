"""The cost model of PIPES (Krämer's thesis, chapter 22). From a few measured numbers it estimates the streams between
operators, and the state of operators.
"""
