"""The web console: a browser application over the HTTP interface. Its files are served as they are, without a build
step."""
