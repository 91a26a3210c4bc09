"""The suites of ``lenet-trt bench``: each measures its contenders and gives a record, shown by tables and pictures."""
