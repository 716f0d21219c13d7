"""Records of topics, read and written as columns where the native part can, else as messages."""
