"""steep: put the training effort where the function is steep."""
