"""The ways by which a declared kernel reaches a runtime, one module a route."""
