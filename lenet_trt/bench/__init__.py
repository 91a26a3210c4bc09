"""Hold the suites of ``lenet-trt bench``: each measures its contenders and returns a record."""
