"""Read the name of a kernel or layer: its architecture, and whether it reformats or multiplies, and how.

NVIDIA's libraries, torch and TensorRT give these names. They were seen in traces; no document defines their format.
"""

from __future__ import annotations

import re

# Architecture by name -> its first compute capability, for names without a number.
_WORDS = {
    "maxwell": 50,
    "pascal": 60,
    "volta": 70,
    "turing": 75,
    "ampere": 80,
    "ada": 89,
    "hopper": 90,
    "blackwell": 100,
}
_SM = re.compile(r"(?<![a-z0-9])sm_?(\d{2,3})(?![0-9])")
_WORD = re.compile(r"(?<![a-z])(" + "|".join(_WORDS) + r")(?![a-z])")

# Kernels and layers that only change the order or the type of numbers: matched by the function's own name, and by the
# operation in torch's element-wise kernels (the other template arguments are not matched: one is "nocast").
_REFORMAT = re.compile(
    r"reformat|copynode|nchwto|nhwcto|tonchw|tonhwc|(?<!conv)(?<!conv_)transpose(?!d)|permute|"
    r"copy_kernel|copypackedkernel|genericcopy|(?<!broad)(?<!no)cast(?!e)"
)
_COPIES = re.compile(r"direct_copy_kernel|catarraybatchedcopy")
# TensorRT's own compiler joins the operations of a kernel into its name: __myl_MoveCast_myl0_3.
_COMPILED = re.compile(r"^__myl_(\w+?)_")
_COMPILED_REFORMAT = re.compile(r"(Move|Cast|Tran|Resh|Copy)+")
# ONNX operators that only change layout, type or shape.
REFORMAT_OPS = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_GEMM = re.compile(r"gemm(?!v)|xmma|cutlass|nvjet|matmul")
_GEMV = re.compile(r"gemv|gemvx|dot_kernel|batched_matvec")
_TENSOR_CORES = re.compile(
    r"tensorop|hmma|imma|wgmma|h?1688|16816|884|tf32|nvjet|f16f16|h161[68]|bf16gemm|fp16_|_mma|tensor_core|xmma(?!.*simt)"
)
_NO_TENSOR_CORES = re.compile(r"simt|ffma|sgemm|f32f32_f32f32|volta_s|maxwell_s")
# The types of both operands in the names of NVIDIA's matrix kernels: sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_...
_NARROW = re.compile(r"_(f16f16|bf16bf16|i8i8|e4m3e4m3)_")


def architecture(name: str) -> int | None:
    """Return the architecture in a kernel's name: 80 for ``sm80_xmma_gemm_...`` or ``ampere_sgemm_...``."""
    lower = name.lower()
    numbers = [int(found) for found in _SM.findall(lower)]
    if numbers:
        return numbers[0]
    word = _WORD.search(lower)
    return _WORDS[word[1]] if word else None


def is_reformat(name: str) -> bool:
    """Say whether it only changes layout or type: TensorRT's reformat layers, cuDNN's conversions, torch's copies."""
    if name.startswith("{ForeignNode["):  # a region of TensorRT's compiler, named after its first and its last node
        return False
    compiled = _COMPILED.match(name)
    if compiled:
        return bool(_COMPILED_REFORMAT.fullmatch(compiled[1]))
    lower = name.lower()
    return bool(_REFORMAT.search(bare(name).lower()) or _COPIES.search(lower)) and not is_gemm(name)


def is_gemm(name: str) -> bool:
    """Say whether it is a product of two matrices; a kernel for matrix times vector is not."""
    lower = name.lower()
    return bool(_GEMM.search(lower)) and not _GEMV.search(lower)


def uses_tensor_cores(name: str) -> bool | None:
    """Say whether the name shows that tensor cores are used; None where the name shows neither."""
    lower = name.lower()
    if _NO_TENSOR_CORES.search(lower):
        return False
    return True if _TENSOR_CORES.search(lower) else None


def takes_narrow_types(name: str) -> bool:
    """Say whether the name of a matrix kernel shows operands of 2 bytes or less."""
    return bool(_NARROW.search(name.lower()))


def bare(name: str) -> str:
    """Return a kernel's function without return type, template arguments and parameters; other names as they are."""
    name = name.replace("(anonymous namespace)::", "")  # its bracket is not that of the parameters
    if "<" not in name and "(" not in name:
        return name.removeprefix("void ")
    kept: list[str] = []
    depth = 0
    for letter in name:
        depth -= letter == ">"
        if letter == "(" and depth == 0 and kept:
            break
        if depth == 0 and letter != "<" and letter != ">":
            kept.append(letter)
        depth += letter == "<"
    words = re.sub(r"(::){2,}", "::", "".join(kept)).split()
    return words[-1] if words else name
