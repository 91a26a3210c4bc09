"""A kernel with known sizes, written as the bytes that the C++ plugin library reads.

This file owns the format; ``cpp/kernel_data.cpp`` reads it. All numbers are little-endian::

    0   "LENETTRT"
    8   u32 version, u32 number of sections
    16  u64 size of all, u64 where the images begin
    32  SHA-256 of bytes 0 to 32 and of 64 to where the images begin (the images have hashes of their own)
    64  for each section: u32 kind, u32 flags (1: who does not know the kind must refuse), u64 offset, u64 size
        the sections; then the images, each at a multiple of 16

Within a section a string is u16 length and UTF-8, an expression u16 length and code, a list u16 count and entries. The
code of an expression is in postfix order: an operand is pushed, an operator takes two values and pushes one, GUARD
takes one and ends with "false" if it is 0. What is known when the kernel is encoded is a constant of its expressions;
the axes that are left are the sizes of inputs, and axis 0 is the number of multiprocessors.

The section LAUNCHES is there only for a kernel with a variant of several launches or with workspace. It has an entry
for each variant: its workspace in bytes, whether its first launch takes the address, and the launches after that one.

The section TUNED is there only where ``lenet-trt tune`` found other choices than the declared ones. It has an entry for
each GPU: its name, u16 architecture, u32 multiprocessors, and a list of choices, a condition and u16 variant each. The
first that holds, and whose variant can run, is taken. A library that does not know the section takes the declared ones.

The section OVERLAPPING is there only where a kernel waits itself for the one before it. It lists the numbers of such
images, u16 each. They may be launched before the kernel in front of them has ended; a library that does not know the
section launches them after it.

The section MAPS is there only for a kernel with tensor maps. It has an entry for each launch that gets some, as its
last arguments: u16 variant, u16 launch, and a list of maps. A map has u16 input, the element type, and a list of axes,
the outermost first: its size, an expression, and u16 the size of a box. The bytes of a box's row say the swizzle.

A later version adds sections; an old library refuses those that it must know and passes over the others. ``VERSION``
changes only when a section that is here changes. A tensor's layout is a byte; a library refuses one that it does not
know.

A constant of 8 bits, or of 16 in a kernel of floats, is a vector of int32 to TensorRT: its bytes, four a word and zeros
at the end; the kernel sees the same bytes. TensorRT 8 takes int8 constants for rounded real numbers and may rescale
them, and has fp16 tensors only in an engine that may compute in fp16. (Until TensorRT 8 goes.)
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence, Set, Sized
from dataclasses import dataclass, replace

import lenet_trt
from lenet_trt.cuda.compile import Module
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import Specialized
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import Algebra, Condition, Dim, DimLike, Operator, Relation, as_dim, product
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.tensor_maps import SpecializedMap
from lenet_trt.kernel.tensors import Tensor
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.kernel.variants import Variant
from lenet_trt.tensorrt.library.sizes import KnownSizes

MAGIC = b"LENETTRT"
VERSION = 1
HEADER_BYTES = 64
MUST_KNOW = 1
KERNEL, AXES, TENSORS, LIMITS, VARIANTS, IMAGES, LAUNCHES, TUNED, OVERLAPPING, MAPS = range(1, 11)
_MAY_BE_PASSED_OVER = (TUNED, OVERLAPPING)

CONSTANT, AXIS, GUARD = 1, 2, 48
OPERATORS: dict[Operator, int] = {
    "add": 16,
    "subtract": 17,
    "multiply": 18,
    "floor_divide": 19,
    "ceil_divide": 20,
    "minimum": 21,
    "maximum": 22,
}
RELATIONS: dict[Relation, int] = {"<=": 32, "<": 33, "==": 34, "multiple of": 35}
ELEMENT_TYPE_CODES = {"float32": 1, "float16": 2, "bfloat16": 3, "int32": 4, "int8": 5}
CUBIN, PTX = 1, 2

# What the C++ library has room for (cpp/kernel_data.h, kernel_data.cpp, expression.h).
MAX_TENSORS, MAX_RANK, MAX_AXES, MAX_EXTRAS, MAX_VARIANTS, MAX_LAUNCHES, MAX_DEPTH = 64, 8, 32, 32, 64, 4, 64
MAX_CHOICES, MAX_TUNED_GPUS, MAX_IMAGES, MAX_MAPS = 4096, 64, 1024, 4
_IMAGE_ALIGNMENT = 16
_MOST = 65535  # of anything whose number has 16 bits
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class TunedGpu:
    """A GPU by the driver's name, its architecture and multiprocessors, and what was measured on it."""

    name: str
    sm: int
    multiprocessors: int
    choices: tuple[TunedChoice, ...]


@dataclass(frozen=True)
class EncodedVariant:
    """A variant, and for each of its launches the compiled images by target."""

    variant: Variant
    modules: tuple[tuple[Module, ...], ...]

    @property
    def parts(self) -> tuple[tuple[Variant, tuple[Module, ...]], ...]:
        return tuple(zip(self.variant.parts, self.modules, strict=True))


def encode(
    node: str,
    specialized: Specialized,
    sizes: KnownSizes,
    variants: Sequence[EncodedVariant],
    cuda: int,
    tuned: Sequence[TunedGpu] = (),
    words: Set[str] = frozenset(),
) -> bytes:
    """Write the data of one plugin node.

    ``variants`` are those that these sizes allow, in declared order; ``cuda`` is the CUDA version that made the images
    (13000 for 13.0), which the driver has to know. ``words``: the inputs that are told in words of int32.

    Raises:
        LenetTrtError: the kernel has something that the format has no room for.
    """
    kernel = specialized.kernel
    _check_limits(kernel, variants)
    write = _Expressions(sizes)
    images = _Images(cuda)
    sections = {
        KERNEL: b"".join(map(_string, (node, kernel.name, kernel.version, specialized.types.name, _made_by()))),
        AXES: _list(
            _string(axis.name) + struct.pack("<HH", axis.input, axis.dimension) for axis in sizes.open_axes.values()
        ),
        TENSORS: b"".join(
            _list(_tensor(write, tensor, specialized, words) for tensor in tensors)
            for tensors in (kernel.inputs, kernel.outputs)
        ),
        LIMITS: struct.pack("<IQ", kernel.alignment, kernel.max_elements)
        + write.condition(kernel.requires)
        + _string("" if kernel.requires is None else str(kernel.requires)),
        VARIANTS: _list(_variant(write, kernel, encoded, images) for encoded in variants),
    }
    if not all(encoded.variant.is_one_launch for encoded in variants):
        sections[LAUNCHES] = _list(_further(write, kernel, encoded, images) for encoded in variants)
    if maps := [*_maps(write, specialized, variants)]:
        sections[MAPS] = _list(maps)
    names = [encoded.variant.name for encoded in variants]
    measured = [entry for gpu in tuned if (entry := _tuned(write, specialized, gpu, names))]
    if measured:
        sections[TUNED] = _list(measured, "tuned GPUs", MAX_TUNED_GPUS)
    sections[IMAGES] = images.table()
    if images.overlapping:
        sections[OVERLAPPING] = _list(struct.pack("<H", index) for index in images.overlapping)
    return _assembled(sections, images.bytes())


def code_of(dim: Dim, axes: Sequence[str]) -> bytes:
    """The code of an expression over the axes named, which it numbers in that order.

    Raises:
        LenetTrtError: a number in it has more than 64 bits.
    """

    def constant(value: int) -> bytes:
        if value not in _INT64:
            raise LenetTrtError(f"{dim} has the number {value}, which is more than 64 bits")
        return struct.pack("<Bq", CONSTANT, value)

    return dim.fold(
        Algebra(
            constant=constant,
            axis=lambda name: struct.pack("<BH", AXIS, axes.index(name)),
            operations={name: _operation(code) for name, code in OPERATORS.items()},
        )
    )


def condition_code_of(condition: Condition | None, axes: Sequence[str]) -> bytes:
    """The code of a condition: its comparisons with a guard between them; empty for none."""
    parts = condition.comparisons if condition is not None else ()
    return bytes([GUARD]).join(
        code_of(part.left, axes) + code_of(part.right, axes) + bytes([RELATIONS[part.relation]]) for part in parts
    )


class _Expressions:
    """Writes expressions with the known sizes put in."""

    def __init__(self, sizes: KnownSizes) -> None:
        self._sizes = sizes
        self._axes = ("multiprocessors", *sizes.open_axes)

    def size(self, size: DimLike) -> bytes:
        return _code(code_of(self._sizes.substituted(as_dim(size)), self._axes))

    def number(self, size: DimLike) -> int:
        """A size that is known."""
        return self._sizes.substituted(as_dim(size)).evaluate({})

    def may_hold(self, condition: Condition) -> bool:
        """Whether the known sizes leave it possible."""
        return self._sizes.decided(condition) is not False

    def condition(self, condition: Condition | None) -> bytes:
        return _code(condition_code_of(self._sizes.simplified(condition), self._axes))


class _Images:
    """The images, each once, however many variants use it."""

    def __init__(self, cuda: int) -> None:
        self._cuda = cuda
        self._entries: dict[tuple[bytes, str, bool, bool], int] = {}
        self._images: dict[bytes, tuple[int, bytes]] = {}
        self._size = 0
        self.overlapping: list[int] = []  # the numbers of those that wait for the kernel before them

    def index(self, module: Module, exact: bool) -> int:
        """The image's number."""
        digest = hashlib.sha256(module.image).digest()
        if digest not in self._images:
            self._images[digest] = (self._size, module.image)
            self._size = _aligned(self._size + len(module.image))
        index = self._entries.setdefault((digest, module.target, exact, module.waits), len(self._entries))
        if module.waits and index not in self.overlapping:
            self.overlapping.append(index)
        return index

    def table(self) -> bytes:
        """The section that lists them."""
        entries = []
        for digest, target, exact, _ in self._entries:
            kind, _, number = target.partition("_")
            offset, image = self._images[digest]
            code = PTX if kind == "compute" else CUBIN
            numbers = struct.pack("<BBHIQQ", code, exact, int(number), self._cuda, offset, len(image))
            entries.append(numbers + digest)
        return _list(entries, "images", MAX_IMAGES)

    def bytes(self) -> bytes:
        """All of them, as they stand at the end."""
        return b"".join(image.ljust(_aligned(len(image)), b"\0") for _, image in self._images.values())


def word_count(shape: Sequence[int], element_bytes: int = 1) -> int:
    """Return the words that a constant takes."""
    return -(-math.prod(shape) * element_bytes // 4)


def _tensor(write: _Expressions, tensor: Tensor, specialized: Specialized, words: Set[str]) -> bytes:
    if tensor.name in words:
        count = write.number(product(tensor.shape))
        size = ELEMENT_TYPES[specialized.types.resolve(tensor.dtype)].size_bytes
        tensor = replace(tensor, shape=(word_count([count], size),), dtype="int32")
    element = specialized.types.resolve(tensor.dtype)
    if element not in ELEMENT_TYPE_CODES:
        known = ", ".join(ELEMENT_TYPE_CODES)
        raise LenetTrtError(f"{specialized.kernel.name}: {tensor.name} is {element}; TensorRT's plugins take {known}")
    text = "[" + ", ".join(map(str, tensor.shape)) + "]"
    head = (
        _string(tensor.name)
        + struct.pack("<BB", ELEMENT_TYPE_CODES[element], LAYOUTS[tensor.layout].number)
        + _string(text)
    )
    return head + _list(write.size(size) for size in tensor.shape)


def _variant(write: _Expressions, kernel: Kernel, encoded: EncodedVariant, images: _Images) -> bytes:
    variant = encoded.variant
    (first, modules), *_ = encoded.parts
    return b"".join(
        (
            _string(variant.name),
            _string(kernel.entry(first)),
            write.condition(variant.when),
            write.condition(variant.prefer),
            _launch(write, first, modules, images),
        )
    )


def _further(write: _Expressions, kernel: Kernel, encoded: EncodedVariant, images: _Images) -> bytes:
    """The workspace of a variant and its launches after the first."""
    (first, _), *others = encoded.parts
    entries = (
        _string(kernel.entry(part)) + bytes([part.launch.workspace]) + _launch(write, part, modules, images)
        for part, modules in others
    )
    return write.size(encoded.variant.workspace) + bytes([first.launch.workspace]) + _list(entries)


def _maps(write: _Expressions, specialized: Specialized, variants: Sequence[EncodedVariant]) -> Iterator[bytes]:
    """The tensor maps of each launch that has some."""
    for index, encoded in enumerate(variants):
        for launch, (part, _) in enumerate(encoded.parts):
            if maps := specialized.maps(part):
                yield struct.pack("<HH", index, launch) + _list(_map(write, each) for each in maps)


def _map(write: _Expressions, which: SpecializedMap) -> bytes:
    axes = (write.size(size) + struct.pack("<H", of_box) for size, of_box in zip(which.shape, which.box, strict=True))
    return struct.pack("<HB", which.input, ELEMENT_TYPE_CODES[which.dtype]) + _list(axes)


def _tuned(write: _Expressions, specialized: Specialized, gpu: TunedGpu, names: Sequence[str]) -> bytes:
    """What was measured on a GPU, as far as it can count for the node; empty for nothing."""
    types, attributes = specialized.types.name, dict(specialized.attributes)
    choices = [
        write.condition(choice.condition) + struct.pack("<H", names.index(choice.variant))
        for choice in gpu.choices
        if choice.is_for(types, attributes) and choice.variant in names and write.may_hold(choice.condition)
    ]
    head = _string(gpu.name) + struct.pack("<HI", gpu.sm, gpu.multiprocessors)
    return head + _list(choices[:MAX_CHOICES]) if choices else b""


def _launch(write: _Expressions, part: Variant, modules: Sequence[Module], images: _Images) -> bytes:
    launch = part.launch
    return b"".join(
        (
            struct.pack("<III", *launch.block),
            *(write.size(size) for size in (*launch.grid, launch.shared_bytes)),
            _list(write.size(extra) for extra in launch.extras),
            _list(struct.pack("<H", images.index(module, part.only_sm)) for module in modules),
        )
    )


def _assembled(sections: dict[int, bytes], images: bytes) -> bytes:
    at = HEADER_BYTES + 24 * len(sections)
    table, body = b"", b""
    for kind, content in sections.items():
        flags = 0 if kind in _MAY_BE_PASSED_OVER else MUST_KNOW
        table += struct.pack("<IIQQ", kind, flags, at + len(body), len(content))
        body += content
    images_at = _aligned(at + len(body))
    body = body.ljust(images_at - at, b"\0")
    head = MAGIC + struct.pack("<IIQQ", VERSION, len(sections), images_at + len(images), images_at)
    return head + hashlib.sha256(head + table + body).digest() + table + body + images


def _check_limits(kernel: Kernel, variants: Sequence[EncodedVariant]) -> None:
    counts = {
        f"inputs and outputs (at most {MAX_TENSORS})": len(kernel.inputs) + len(kernel.outputs) <= MAX_TENSORS,
        f"dimensions (at most {MAX_RANK})": all(len(t.shape) <= MAX_RANK for t in (*kernel.inputs, *kernel.outputs)),
        f"axes (at most {MAX_AXES - 1})": len(kernel.axes) < MAX_AXES,
        f"variants (at most {MAX_VARIANTS})": len(variants) <= MAX_VARIANTS,
        f"launches of a call (at most {MAX_LAUNCHES})": all(len(v.variant.parts) <= MAX_LAUNCHES for v in variants),
        f"extras of a launch (at most {MAX_EXTRAS})": all(
            len(part.launch.extras) <= MAX_EXTRAS for v in variants for part in v.variant.parts
        ),
        f"tensor maps of a launch (at most {MAX_MAPS})": all(
            len(part.launch.maps) <= MAX_MAPS for v in variants for part in v.variant.parts
        ),
    }
    for what, fits in counts.items():
        if not fits:
            raise LenetTrtError(f"{kernel.name} has more {what} than the plugin library has room for")


def _operation(code: int) -> Callable[[bytes, bytes], bytes]:
    return lambda left, right: left + right + bytes([code])


def _code(code: bytes) -> bytes:
    if (depth := depth_of(code)) > MAX_DEPTH:
        raise LenetTrtError(f"an expression is nested {depth} deep; the plugin library has room for {MAX_DEPTH}")
    return _length(code, "bytes of an expression") + code


def depth_of(code: bytes) -> int:
    """The most values that an expression, as written, has at a time while it is computed."""
    at = depth = most = 0
    while at < len(code):
        pushes = code[at] in (CONSTANT, AXIS)
        depth += 1 if pushes else -1
        most = max(most, depth)
        at += {CONSTANT: 9, AXIS: 3}.get(code[at], 1)
    return most


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _length(encoded, "bytes of a text") + encoded


def _list(entries: Iterable[bytes], what: str = "entries of a list", most: int = _MOST) -> bytes:
    listed = list(entries)
    return _length(listed, what, most) + b"".join(listed)


def _length(content: Sized, what: str, most: int = _MOST) -> bytes:
    if len(content) > most:
        raise LenetTrtError(f"{len(content)} {what}; the plugin library has room for {most}")
    return struct.pack("<H", len(content))


def _aligned(size: int) -> int:
    return -(-size // _IMAGE_ALIGNMENT) * _IMAGE_ALIGNMENT


def _made_by() -> str:
    return f"lenet_trt {lenet_trt.__version__}"
