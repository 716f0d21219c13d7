"""The web console: an application in the browser over the HTTP interface. Its files are served as they are, without a
step that builds them."""
