"""The parts of ``lenet-trt optimize``: what could take the place of what, what decides, what measures, what is left."""
