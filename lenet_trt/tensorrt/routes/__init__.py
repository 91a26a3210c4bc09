"""List the routes by which kernels get into TensorRT, in the order in which they are tried by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.tensorrt.routes.library import LibraryRoute
from lenet_trt.tensorrt.routes.protocol import Route
from lenet_trt.tensorrt.routes.ptx import PtxRoute
from lenet_trt.tensorrt.routes.python import PythonRoute

if TYPE_CHECKING:
    from lenet_trt.tensorrt.flavors import Flavor

ROUTES: Mapping[str, Route] = {route.name: route for route in (PtxRoute(), PythonRoute(), LibraryRoute())}


def chosen_route(flavor: Flavor, asked: str | None) -> Route:
    """Return the requested route, or the first route that the flavor takes.

    Raises:
        UsageError: the flavor does not take plugins by the route that was asked for; lists those that it takes.
    """
    taken = {name: route for name, route in ROUTES.items() if route.obstacle(flavor) is None}
    if asked is None:
        return next(iter(taken.values()))
    if asked not in taken:
        why = ROUTES[asked].obstacle(flavor) if asked in ROUTES else "there is no such route"
        raise UsageError(f"--plugin-route {asked}: {why}; {flavor.product} takes plugins by {', '.join(taken)}")
    return taken[asked]


def recorded_route(name: str) -> Route:
    """Return the route that a sidecar names.

    Raises:
        LenetTrtError: there is none of that name, as in sidecars of older versions.
    """
    if name not in ROUTES:
        raise LenetTrtError(
            f"the engine's sidecar says that its plugins came by the route {name!r}, and there are "
            f"{', '.join(ROUTES)}: build the engine again with --force"
        )
    return ROUTES[name]
