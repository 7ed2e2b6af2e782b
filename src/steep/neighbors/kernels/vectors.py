# ruff: noqa: ANN001, ANN201, ANN202, ANN204
# mypy: allow-untyped-defs, allow-untyped-calls
"""Sixteen numbers at once: what the kernels ask of the processor in LLVM's own terms.

Every processor's compiler breaks a vector of 16 numbers down to the registers it has; how many rows and panels a tile
takes follows from how many those are. Addresses are plain integers, steps between rows are in bytes.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

PANEL = 16  # points in a panel
written: Any = intrinsic  # what kernels may call is written in LLVM's terms; numba has no types


def has_wide_registers() -> bool:
    """Return whether the processor that numba compiles for has 32 registers of 16 numbers."""
    name, features = getattr(config, "CPU_NAME", None), getattr(config, "CPU_FEATURES", None)
    if name or features:  # NUMBA_CPU_NAME and NUMBA_CPU_FEATURES ask for kernels of another one
        return "+avx512f" in (features or "")
    try:
        return bool(binding.get_host_cpu_features().get("avx512f"))
    except RuntimeError:  # LLVM does not know some processors
        return False


# Rows and panels of a tile: as many sums as registers hold. 32 registers of 16 numbers, or half as many of 8.
TILE_ROWS, TILE_PANELS = (8, 2) if has_wide_registers() else (4, 1)
TOGETHER = TILE_PANELS * PANEL  # points that rows meet in one tile
LANES = 64  # minima kept at once

_FLOAT, _INT = ir.FloatType(), ir.IntType(64)
_VECTOR, _BITS = ir.VectorType(_FLOAT, PANEL), ir.IntType(PANEL)


class _Emit:
    """What a tile says to LLVM."""

    def __init__(self, builder):
        self.builder = builder
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        # one instruction where the processor has it, else a product and a sum
        self._fma = cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v16f32")

    def number(self, value):
        return ir.Constant(_INT, value)

    def at(self, address, offset, kind):
        place = self.builder.add(address, self.number(offset)) if offset else address
        return self.builder.inttoptr(place, kind.as_pointer())

    def vector(self, address, offset=0):
        return self.builder.load(self.at(address, offset, _VECTOR), align=4)

    def repeated(self, address, offset=0):
        return self.spread(self.builder.load(self.at(address, offset, _FLOAT), align=4))

    def spread(self, value, kind=_VECTOR):
        nothing = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), PANEL), [0] * PANEL)
        return self.builder.shuffle_vector(first, nothing, zeros)

    def fma(self, a, b, c):
        return self.builder.call(self._fma, [a, b, c])

    def store(self, value, address, offset, kind, align):
        self.builder.store(value, self.at(address, offset, kind), align=align)

    def starts(self, col_half):
        """Return −half_y of the points of each panel."""
        return [self.builder.fneg(self.vector(col_half, 4 * PANEL * c)) for c in range(TILE_PANELS)]

    def write_out(self, sums, out, to_next_line):
        for at, value in enumerate(sums):
            line = self.builder.add(out, self.builder.mul(to_next_line, self.number(at // TILE_PANELS)))
            self.store(value, line, 4 * PANEL * (at % TILE_PANELS), _VECTOR, 4)

    def products(self, rows, to_next_row, cols, depth, starts):
        """Return the sums of products, row by row and panel by panel, from ``starts`` of each panel on."""
        builder, before = self.builder, self.builder.block
        to_next_panel = builder.mul(to_next_row, self.number(PANEL))
        loop, done = builder.append_basic_block("features"), builder.append_basic_block("multiplied")
        builder.branch(loop)
        builder.position_at_end(loop)
        feature = builder.phi(_INT)
        feature.add_incoming(self.number(0), before)
        sums = []
        for _ in range(TILE_ROWS):
            for start in starts:
                sums.append(builder.phi(_VECTOR))
                sums[-1].add_incoming(start, before)
        offset = builder.mul(feature, self.number(4 * PANEL))
        row_at, col_at = builder.add(rows, builder.mul(feature, self.number(4))), builder.add(cols, offset)
        steps = [builder.mul(to_next_panel, self.number(c)) for c in range(len(starts))]
        others = [self.vector(builder.add(col_at, step)) for step in steps]
        added = []
        for i in range(TILE_ROWS):
            mine = self.repeated(builder.add(row_at, builder.mul(to_next_row, self.number(i))))
            added += [self.fma(mine, other, sums[i * len(starts) + c]) for c, other in enumerate(others)]
        following = builder.add(feature, self.number(1))
        feature.add_incoming(following, loop)
        for total, more in zip(sums, added, strict=True):
            total.add_incoming(more, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)
        builder.position_at_end(done)
        return added


@written
def multiply_tile(typing_context, rows, to_next_row, cols, depth, col_half, out, to_next_line):
    """Multiply ``TILE_ROWS`` rows with ``TILE_PANELS`` panels and write x·y − half_y to ``out``, line by line.

    All arguments are addresses but ``depth``, the number of features, and the two steps, in bytes. A panel takes as
    many bytes as 16 rows.
    """

    def emit(context, builder, signature, arguments):
        rows, to_next_row, cols, depth, col_half, out, to_next_line = arguments
        say = _Emit(builder)
        sums = say.products(rows, to_next_row, cols, depth, say.starts(col_half))
        say.write_out(sums, out, to_next_line)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 7), emit


@written
def tile(typing_context, at, low, col):
    """Multiply ``TILE_ROWS`` rows from ``low`` on with ``TILE_PANELS`` panels from ``col`` on; return if any may hit.

    ``at`` are the bytes of a row, and of a point in a panel; the addresses of rows, their half norms and thresholds
    half_x − top_x, of panels, their half norms and top_y, of room for products and bits; and the number of features. If
    there is a hit the products are written out, as :func:`multiply_tile` does, and the bits of hits; else nothing is.
    """

    def emit(context, builder, signature, arguments):
        say, (at, low, col) = _Emit(builder), arguments
        step, rows, half, limit, panels, col_half, col_top, out, bits, depth = cgutils.unpack_tuple(builder, at)

        def moved(address, count, size):
            return builder.add(address, builder.mul(count, size))

        four = say.number(4)
        rows, panels = moved(rows, low, step), moved(panels, col, step)
        half, limit = moved(half, low, four), moved(limit, low, four)
        col_half, col_top = moved(col_half, col, four), moved(col_top, col, four)
        sums = say.products(rows, step, panels, depth, say.starts(col_half))
        tops = [say.vector(col_top, 4 * PANEL * c) for c in range(TILE_PANELS)]
        hits, any_hit = [], ir.Constant(_BITS, 0)
        for i in range(TILE_ROWS):
            mine, least = say.repeated(half, 4 * i), say.repeated(limit, 4 * i)
            for c, top in enumerate(tops):
                other = builder.fsub(mine, top)
                bar = builder.select(builder.fcmp_ordered("<", other, least), other, least)
                is_hit = builder.fcmp_ordered(">", sums[i * TILE_PANELS + c], bar)
                hits.append(builder.bitcast(is_hit, _BITS))
                any_hit = builder.or_(any_hit, hits[-1])
        found = builder.icmp_unsigned("!=", any_hit, ir.Constant(_BITS, 0))
        with builder.if_then(found, likely=False):
            say.write_out(sums, out, say.number(4 * TOGETHER))
            for place, some in enumerate(hits):
                say.store(some, bits, PANEL // 8 * place, _BITS, 2)
        return found

    return types.boolean(at, types.intp, types.intp), emit


@written
def turn(typing_context, rows, to_next_row, panel):
    """Write 16 numbers each of 16 rows to a panel, feature by feature.

    Four rounds exchange blocks of 1, 2, 4 and 8 numbers between rows as far apart.
    """

    def emit(context, builder, signature, arguments):
        rows, to_next_row, panel = arguments
        say = _Emit(builder)
        lines = [say.vector(builder.add(rows, builder.mul(to_next_row, say.number(i)))) for i in range(PANEL)]
        for step in (1, 2, 4, 8):
            lower = [lane if not lane & step else PANEL + lane - step for lane in range(PANEL)]
            upper = [lane + step if not lane & step else PANEL + lane for lane in range(PANEL)]
            for i in range(PANEL):
                if not i & step:
                    pair = lines[i], lines[i + step]
                    lines[i], lines[i + step] = (
                        builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(ir.IntType(32), PANEL), lanes))
                        for lanes in (lower, upper)
                    )
        for f, line in enumerate(lines):
            say.store(line, panel, 4 * PANEL * f, _VECTOR, 4)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), emit


@written
def shift_in(typing_context, scores, indices, n_lanes, new_score, new_index):
    """Put an entry where it belongs among the first ``n_lanes`` of 16 ascending scores, and move the others up by one.

    What stands before the first of them moves in if it is worse, too. Returns whether the first has moved.
    """

    def emit(context, builder, signature, arguments):
        scores, indices, n_lanes, new_score, new_index = arguments
        say, whole = _Emit(builder), ir.VectorType(ir.IntType(32), PANEL)
        entry, name = say.spread(new_score), say.spread(new_index, whole)
        before = builder.sub(scores, say.number(4)), builder.sub(indices, say.number(4))
        old, lower = say.vector(scores), say.vector(before[0])
        old_names, lower_names = (builder.load(say.at(at, 0, whole), align=4) for at in (indices, before[1]))
        lanes = ir.Constant(whole, list(range(PANEL)))
        counted = say.spread(builder.trunc(n_lanes, ir.IntType(32)), whole)
        moves = builder.and_(builder.fcmp_ordered(">", old, entry), builder.icmp_signed("<", lanes, counted))
        from_below = builder.fcmp_ordered(">", lower, entry)
        say.store(builder.select(moves, builder.select(from_below, lower, entry), old), scores, 0, _VECTOR, 4)
        names = builder.select(moves, builder.select(from_below, lower_names, name), old_names)
        say.store(names, indices, 0, whole, 4)
        return builder.extract_element(moves, ir.Constant(ir.IntType(32), 0))

    return types.boolean(types.intp, types.intp, types.intp, types.float32, types.int32), emit


@written
def at_most(typing_context, numbers, bound):
    """Return as bits which of the 16 numbers at an address are at most ``bound``."""

    def emit(context, builder, signature, arguments):
        say = _Emit(builder)
        is_low = builder.fcmp_ordered("<=", say.vector(arguments[0]), say.spread(arguments[1]))
        return builder.zext(builder.bitcast(is_low, _BITS), ir.IntType(32))

    return types.uint32(types.intp, types.float32), emit


@written
def low_scores(typing_context, products, half, my_half, bound):
    """Return as bits which of 16 scores, half_x + half_y − x·y, are at most ``bound``; the first two are addresses."""

    def emit(context, builder, signature, arguments):
        products, half, my_half, bound = arguments
        say = _Emit(builder)
        scores = builder.fsub(builder.fadd(say.spread(my_half), say.vector(half)), say.vector(products))
        is_low = builder.fcmp_ordered("<=", scores, say.spread(bound))
        return builder.zext(builder.bitcast(is_low, _BITS), ir.IntType(32))

    return types.uint32(types.intp, types.intp, types.float32, types.float32), emit


@written
def n_before(typing_context, numbers, value, place):
    """Count the numbers of 16 at an address that come before ``value``: lower ones, and equal ones before ``place``."""

    def emit(context, builder, signature, arguments):
        numbers, value, place = arguments
        say, whole = _Emit(builder), ir.VectorType(ir.IntType(32), PANEL)
        line, value = say.vector(numbers), say.spread(value)
        lanes = ir.Constant(whole, list(range(PANEL)))
        earlier = builder.icmp_signed("<", lanes, say.spread(builder.trunc(place, ir.IntType(32)), whole))
        equal = builder.and_(builder.fcmp_ordered("==", line, value), earlier)
        bits = builder.bitcast(builder.or_(builder.fcmp_ordered("<", line, value), equal), _BITS)
        return builder.ctpop(builder.zext(bits, _INT))

    return types.intp(types.intp, types.float32, types.intp), emit


@written
def n_bits(typing_context, bits):
    """Count the bits that are set."""

    def emit(context, builder, signature, arguments):
        return builder.zext(builder.ctpop(arguments[0]), _INT)

    return types.intp(types.uint32), emit


@written
def first_bit(typing_context, bits):
    """Return the place of the lowest bit that is set."""

    def emit(context, builder, signature, arguments):
        return builder.zext(builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1)), _INT)

    return types.intp(types.uint32), emit
