"""A few words of Python that become machine code: loops over arrays of numbers.

A kernel is an ordinary Python function of numbers and flat arrays, made of assignments, `for ... in range(...)`, `if`,
indexing and arithmetic. Its parameters are annotated: `Array` (of the kernel's floating type), `Indices` (of int64),
`Doubles` (of float64), `int` or `float`. It may call the words of words.py and other functions like them, which are
written out in place.

One rule is not Python's: what is added up in a variable by `+=` is added in whatever order is fastest.
"""

import ast
import builtins
import inspect
import struct
import textwrap
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pellucid.native.vectors import Assembly
from pellucid.native.words import INTRINSICS, WHOLE, Array, ByWidth, Doubles, Indices, gemm, power_of_two, product, wide

WIDTH = {"float": 32, "double": 64}
COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
FLOAT_OPS: dict[type[ast.AST], str] = {
    ast.Add: "fadd contract",
    ast.Sub: "fsub contract",
    ast.Mult: "fmul contract",
    ast.Div: "fdiv",
}
INT_OPS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "sdiv",
    ast.Mod: "srem",
}

ARRAYS = {kind.__name__ for kind in (Array, Indices, Doubles)}
Value = tuple[str, str]  # LLVM's type, and the name or constant


class Unknown(SyntaxError):
    """The kernel says something that this language does not have."""


@lru_cache(maxsize=256)
def parsed(function: Callable[..., Any]) -> ast.FunctionDef:
    """The syntax tree of a function."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def parameters(function: Callable[..., Any]) -> dict[str, type]:
    """The parameters of a kernel and the kind of each.

    >>> from pellucid.native.words import Array
    >>> def scale(first: int, last: int, x: Array, factor: float) -> None: ...
    >>> [kind.__name__ for kind in parameters(scale).values()]
    ['int', 'int', 'Array', 'float']
    """
    return {name: kind for name, kind in function.__annotations__.items() if name != "return"}


class Writer:
    """Writes the LLVM assembly of one kernel, for one floating type; `product_at` says where matrix products begin."""

    def __init__(self, floating: str, product_at: Callable[[str], int]) -> None:
        self.floating, self.product_at, self.count = floating, product_at, 0
        self.lines: list[str] = []
        self.slots: list[str] = []  # where variables live: LLVM turns them into registers
        self.declared: set[str] = set()

    def kernel(self, name: str, function: Callable[..., Any]) -> str:
        """The function as LLVM text, with its arrays as pointers that do not overlap."""
        self.scope, self.names = function.__globals__, {}
        self.emit("entry:")
        arguments = []
        for parameter, kind in parameters(function).items():
            arguments.append(f"{self.type_of(kind)}{'' if kind in (int, float) else ' noalias'} %{parameter}")
            if kind in (int, float):
                self.assign(parameter, (self.type_of(kind), f"%{parameter}"))
            else:
                self.names[parameter] = (kind.__name__, f"%{parameter}")
        self.body(parsed(function).body)
        head = f"define internal void @{name}({', '.join(arguments)}) noinline {{"
        text = [head, self.lines[0], *self.slots, *self.lines[1:], "  ret void", "}"]
        return "\n".join([*text, *sorted(self.declared), ""])

    def type_of(self, kind: type) -> str:
        """LLVM's type for an annotation."""
        return "i64" if kind is int else self.floating if kind is float else "ptr"

    # --- writing

    def emit(self, line: str) -> None:
        self.lines.append(line if line.endswith(":") else f"  {line}")

    def fresh(self, stem: str = "t") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def result(self, type_: str, code: str) -> Value:
        name = f"%{self.fresh()}"
        self.emit(f"{name} = {code}")
        return type_, name

    # --- statements

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            getattr(self, f"do_{type(statement).__name__}", self.refuse)(statement)

    def refuse(self, node: ast.AST) -> Any:
        raise Unknown(f"a kernel cannot say: {ast.unparse(node)}")

    def do_Expr(self, statement: ast.Expr) -> None:
        spoken = statement.value
        if isinstance(spoken, ast.Call):
            word, given = self.meant(spoken.func), [self.value(each) for each in spoken.args]
            if isinstance(word, Assembly):
                self.declared.update(word.texts(self.floating))
                types = ("ptr" if type_ in ARRAYS else type_ for type_, _ in given)
                arguments = (f"{type_} {name}" for type_, (_, name) in zip(types, given, strict=True))
                self.emit(f"call void @{word.name}({', '.join(arguments)})")
            elif word is gemm:
                self.gemm(given)
            else:
                self.inserted(word, given)
        elif not isinstance(spoken, ast.Constant):  # a docstring is nothing to do
            self.refuse(statement)

    def gemm(self, given: list[Value]) -> None:
        """A matrix product: a call of what has the parameters of a BLAS's."""
        across_a, across_b, m, n, k, alpha, a, a_begin, a_step, b, b_begin, b_step, beta, c, c_begin, c_step = given
        transposed = [self.result("i32", f"trunc i64 {each[1]} to i32")[1] for each in (across_a, across_b)]
        transposed = [f"i32 {self.result('i32', f'add i32 111, {each}')[1]}" for each in transposed]
        whole = [*transposed, *(f"i64 {each[1]}" for each in (m, n, k))]
        steps = [f"i64 {each[1]}" for each in (a_step, b_step, c_step)]
        type_ = self.floating
        places = [
            f"ptr {self.result('ptr', f'getelementptr {type_}, ptr {array[1]}, i64 {begin[1]}')[1]}"
            for array, begin in ((a, a_begin), (b, b_begin), (c, c_begin))
        ]
        alpha, beta = (f"{type_} {self.converted(each, type_)[1]}" for each in (alpha, beta))  # type: ignore[assignment]
        product = self.result("ptr", f"inttoptr i64 {self.product_at(type_)} to ptr")[1]
        operands = f"{alpha}, {places[0]}, {steps[0]}, {places[1]}, {steps[1]}, {beta}, {places[2]}, {steps[2]}"
        self.emit(f"call void {product}(i32 101, {', '.join(whole)}, {operands})")

    def do_Assign(self, statement: ast.Assign) -> None:
        (target,) = statement.targets
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            values = [self.value(each) for each in statement.value.elts]
            for each, value in zip(target.elts, values, strict=True):
                self.store(each, value)
        else:
            self.store(target, self.value(statement.value))

    def do_AugAssign(self, statement: ast.AugAssign) -> None:
        before, more = self.value(statement.target), self.value(statement.value)
        if isinstance(statement.op, ast.Add) and before[0] != "i64" and isinstance(statement.target, ast.Name):
            more = self.converted(more, before[0])
            self.store(
                statement.target, self.result(before[0], f"fadd reassoc contract {before[0]} {before[1]}, {more[1]}")
            )
        else:
            self.store(statement.target, self.arithmetic(type(statement.op), before, more, statement))

    def store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.assign(target.id, value)
        elif isinstance(target, ast.Subscript):
            element, place = self.place(target)
            self.emit(f"store {element} {self.converted(value, element)[1]}, ptr {place}")
        else:
            self.refuse(target)

    def assign(self, name: str, value: Value) -> None:
        if name not in self.names:
            type_ = value[0]
            slot = f"%{self.fresh(name + '.')}"
            self.slots.append(f"  {slot} = alloca {type_}")
            self.names[name] = (f"slot {type_}", slot)
        type_, slot = self.names[name]
        type_ = type_.removeprefix("slot ")
        self.emit(f"store {type_} {self.converted(value, type_)[1]}, ptr {slot}")

    def do_For(self, loop: ast.For) -> None:
        if not (isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range"):
            self.refuse(loop)
        bounds = [self.value(each) for each in loop.iter.args]  # type: ignore[attr-defined]
        start, stop = (("i64", "0"), bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) > 2 else ("i64", "1")
        head, inside, after = (self.fresh(stem) for stem in ("head", "inside", "after"))
        self.store(loop.target, start)
        self.emit(f"br label %{head}")
        self.emit(f"{head}:")
        here = self.value(loop.target)
        going = self.result("i1", f"icmp slt i64 {here[1]}, {stop[1]}")
        self.emit(f"br i1 {going[1]}, label %{inside}, label %{after}")
        self.emit(f"{inside}:")
        self.body(loop.body)
        self.store(loop.target, self.result("i64", f"add nsw i64 {self.value(loop.target)[1]}, {step[1]}"))
        self.emit(f"br label %{head}")
        self.emit(f"{after}:")

    def do_If(self, choice: ast.If) -> None:
        then, other, after = (self.fresh(stem) for stem in ("then", "other", "after"))
        self.emit(f"br i1 {self.truth(choice.test)[1]}, label %{then}, label %{other}")
        for label, statements in ((then, choice.body), (other, choice.orelse)):
            self.emit(f"{label}:")
            self.body(statements)
            self.emit(f"br label %{after}")
        self.emit(f"{after}:")

    # --- expressions

    def value(self, node: ast.expr) -> Value:
        return getattr(self, f"of_{type(node).__name__}", self.refuse)(node)  # type: ignore[no-any-return]

    def truth(self, node: ast.expr) -> Value:
        """Whether something holds; a whole number holds unless it is 0."""
        type_, name = self.value(node)
        return self.result("i1", f"icmp ne i64 {name}, 0") if type_ == "i64" else (type_, name)

    def of_Constant(self, node: ast.Constant) -> Value:
        return self.constant(node.value)

    def constant(self, number: Any) -> Value:
        if isinstance(number, float):
            if self.floating == "float":
                number = struct.unpack("f", struct.pack("f", number))[0]
            return self.floating, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
        return "i64", str(int(number))

    def of_Name(self, node: ast.Name) -> Value:
        if node.id not in self.names:
            return self.constant(self.meant(node))
        type_, name = self.names[node.id]
        if not type_.startswith("slot "):
            return type_, name
        type_ = type_.removeprefix("slot ")
        return self.result(type_, f"load {type_}, ptr {name}")

    def place(self, node: ast.Subscript) -> Value:
        kind, pointer = self.value(node.value)
        element = {Indices.__name__: "i64", Doubles.__name__: "double"}.get(kind, self.floating)
        index = self.value(node.slice)
        return element, self.result("ptr", f"getelementptr inbounds {element}, ptr {pointer}, i64 {index[1]}")[1]

    def of_Subscript(self, node: ast.Subscript) -> Value:
        element, place = self.place(node)
        return self.result(element, f"load {element}, ptr {place}")

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        type_, name = self.value(node.operand)
        if not isinstance(node.op, ast.USub):
            self.refuse(node)
        return self.result(type_, f"sub i64 0, {name}" if type_ == "i64" else f"fneg {type_} {name}")

    def of_BinOp(self, node: ast.BinOp) -> Value:
        return self.arithmetic(type(node.op), self.value(node.left), self.value(node.right), node)

    def arithmetic(self, operator: type[ast.AST], left: Value, right: Value, node: ast.AST) -> Value:
        whole = left[0] == right[0] == "i64" and operator is not ast.Div
        code = (INT_OPS if whole else FLOAT_OPS).get(operator)
        if code is None:
            self.refuse(node)
        type_ = "i64" if whole else self.wider(left, right)
        left, right = self.converted(left, type_), self.converted(right, type_)
        return self.result(type_, f"{code} {type_} {left[1]}, {right[1]}")

    def wider(self, left: Value, right: Value) -> str:
        """The floating type in which two values meet."""
        return "double" if "double" in (left[0], right[0]) else self.floating

    def converted(self, value: Value, type_: str) -> Value:
        if value[0] == type_:
            return value
        if value[0] == "i64" and value[1].lstrip("-").isdigit():
            return self.converted(self.constant(float(value[1])), type_)
        if value[0] in WIDTH and type_ in WIDTH:
            word = "fpext" if WIDTH[type_] > WIDTH[value[0]] else "fptrunc"
            return self.result(type_, f"{word} {value[0]} {value[1]} to {type_}")
        return self.result(type_, f"{'sitofp' if value[0] == 'i64' else 'fptosi'} {value[0]} {value[1]} to {type_}")

    def of_Compare(self, node: ast.Compare) -> Value:
        left, right = self.value(node.left), self.value(node.comparators[0])
        word = COMPARE[type(node.ops[0])]
        if left[0] == right[0] == "i64":
            sign = "" if word in ("eq", "ne") else "s"
            return self.result("i1", f"icmp {sign}{word} i64 {left[1]}, {right[1]}")
        type_ = self.wider(left, right)
        left, right = self.converted(left, type_), self.converted(right, type_)
        order = "u" if word == "ne" else "o"
        return self.result("i1", f"fcmp {order}{word} {type_} {left[1]}, {right[1]}")

    def of_BoolOp(self, node: ast.BoolOp) -> Value:
        """`and` and `or`; all sides are evaluated."""
        result, *others = (self.truth(each) for each in node.values)
        for other in others:
            word = "and" if isinstance(node.op, ast.And) else "or"
            result = self.result("i1", f"{word} i1 {result[1]}, {other[1]}")
        return result

    def of_IfExp(self, node: ast.IfExp) -> Value:
        test, then, other = self.truth(node.test), self.value(node.body), self.value(node.orelse)
        type_ = then[0] if then[0] == other[0] else self.wider(then, other)
        then, other = self.converted(then, type_), self.converted(other, type_)
        return self.result(type_, f"select i1 {test[1]}, {type_} {then[1]}, {type_} {other[1]}")

    def of_Call(self, node: ast.Call) -> Value:
        word = self.meant(node.func)
        if word in WHOLE:
            x, y = (self.value(each)[1] for each in node.args)
            self.declared.add(f"declare i64 @llvm.{WHOLE[word]}.i64(i64, i64)")
            return self.result("i64", f"call i64 @llvm.{WHOLE[word]}.i64(i64 {x}, i64 {y})")
        given = [self.value(each) for each in node.args]
        if word is wide:
            return self.converted(given[0], "double")
        if word not in (float, power_of_two, product) and word not in INTRINSICS:
            return self.written_out(word, given)
        arguments = [self.converted(each, self.floating) for each in given]
        if word is float:
            return arguments[0]
        if word is product:
            return self.result(self.floating, f"fmul {self.floating} {arguments[0][1]}, {arguments[1][1]}")
        return self.power_of_two(arguments[0]) if word is power_of_two else self.intrinsic(INTRINSICS[word], arguments)

    def meant(self, node: ast.expr) -> Any:
        """What a name (or a name of a module) stands for where the kernel was written."""
        if isinstance(node, ast.Attribute):
            return getattr(self.meant(node.value), node.attr)
        if not isinstance(node, ast.Name):
            self.refuse(node)
        return self.scope.get(node.id, getattr(builtins, node.id, None))  # type: ignore[attr-defined]

    def intrinsic(self, name: str, arguments: list[Value]) -> Value:
        type_ = self.floating
        full = f"@llvm.{name}.f{WIDTH[type_]}"
        self.declared.add(f"declare {type_} {full}({', '.join([type_] * len(arguments))})")
        return self.result(type_, f"call {type_} {full}({', '.join(f'{type_} {name}' for _, name in arguments)})")

    def power_of_two(self, whole: Value) -> Value:
        """2 to a whole power within the exponent's range: the number is shifted into the exponent's bits."""
        type_, bits = self.floating, WIDTH[self.floating]
        fraction, bias = (23, 127.0) if bits == 32 else (52, 1023.0)
        moved = self.arithmetic(ast.Add, whole, self.constant(1.5 * 2.0**fraction + bias), ast.Pass())
        number = self.result(f"i{bits}", f"bitcast {type_} {moved[1]} to i{bits}")
        shifted = self.result(f"i{bits}", f"shl i{bits} {number[1]}, {fraction}")
        return self.result(type_, f"bitcast i{bits} {shifted[1]} to {type_}")

    def written_out(self, function: Callable[..., Any], arguments: list[Value]) -> Value:
        """Another function of the language, in place; it ends with its only return."""
        if isinstance(function, ByWidth):
            function = function.single if self.floating == "float" else function.double
        return self.inserted(function, arguments)

    def inserted(self, function: Callable[..., Any], arguments: list[Value]) -> Value:
        """The statements of another function, with its parameters standing for the arguments; what it returns."""
        outer = self.names, self.scope
        self.names = {
            name: self.converted(value, self.floating) if kind is float else value
            for (name, kind), value in zip(parameters(function).items(), arguments, strict=True)
        }
        self.scope = function.__globals__
        *statements, last = parsed(function).body
        self.body(statements)
        result: Value = ("i64", "0")
        if isinstance(last, ast.Return) and last.value is not None:
            result = self.value(last.value)
        else:
            self.body([last])
        self.names, self.scope = outer
        return result
