"""Following a result into a sink: the work of `dsms sink`, and of the process that the cluster runs for CREATE SINK."""
