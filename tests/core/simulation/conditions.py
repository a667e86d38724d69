"""Counts which conditions of a module came out true and which false while it ran: each `if`, `while` and case, each
operand of `and` and `or`, each filter of a comprehension.

That is finer than lines and branches: most of the core's decisions are filters and operands, which share a line. The
functions get the same code with a counter around each condition, and their own code back afterwards.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

_COUNTER = "_condition_seen"
_CONSUMERS = ("any", "all")


class ConditionCounts:
    """Counts the conditions of some modules while it is entered."""

    def __init__(self, *modules: ModuleType) -> None:
        self._modules = modules
        self._conditions: list[str] = []
        self._seen: tuple[set[int], set[int]] = (set(), set())
        self._own: dict[FunctionType, CodeType] = {}

    def __enter__(self) -> ConditionCounts:
        for module in self._modules:
            vars(module)[_COUNTER] = self._count
            codes = dict(_codes(self._instrumented(module)))
            for function in _functions(module):
                if function.__qualname__ not in codes:
                    continue  # a method that `dataclass` has written
                self._own[function] = function.__code__
                function.__code__ = codes[function.__qualname__]
        return self

    def __exit__(self, *exc: object) -> None:
        for function, code in self._own.items():
            function.__code__ = code
        for module in self._modules:
            del vars(module)[_COUNTER]

    def one_sided(self) -> list[str]:
        """Return the conditions that were never true, or never false, with their place and text."""
        return [
            f"{condition} was never {outcome}"
            for number, condition in enumerate(self._conditions)
            for outcome in (False, True)
            if number not in self._seen[outcome] and not (condition.startswith("case") and not outcome)
        ]

    def _count(self, number: int, value: object) -> object:
        self._seen[bool(value)].add(number)
        return value

    def _instrumented(self, module: ModuleType) -> CodeType:
        source, file = inspect.getsource(module), inspect.getsourcefile(module) or ""
        tree = _CountConditions(file.rpartition("/")[2], self._conditions).visit(ast.parse(source))
        return compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)


class _CountConditions(ast.NodeTransformer):
    """Puts a counter around each condition."""

    def __init__(self, file: str, conditions: list[str]) -> None:
        self._file = file
        self._conditions = conditions
        self._is_bool = False

    def _counted(self, condition: ast.expr) -> ast.expr:
        """Return a condition with a counter around it and, if it joins several, around each of them."""
        if isinstance(condition, ast.BoolOp):
            condition.values = [self._counted(value) for value in condition.values]
            return condition
        if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            condition.operand = self._counted(condition.operand)
            return condition
        return self._call(f"{self._place(condition)}: {ast.unparse(condition)}", self.visit(condition))

    def _place(self, node: ast.expr | ast.pattern) -> str:
        return f"{self._file}:{node.lineno}"

    def _call(self, label: str, value: ast.expr) -> ast.Call:
        self._conditions.append(label)
        number = ast.Constant(len(self._conditions) - 1)
        return ast.Call(ast.Name(_COUNTER, ast.Load()), [number, value], [])

    def visit_If(self, node: ast.If) -> ast.AST:
        """Count both outcomes of an `if`."""
        node.test = self._counted(node.test)
        node.body = [self.visit(statement) for statement in node.body]
        node.orelse = [self.visit(statement) for statement in node.orelse]
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """Count both outcomes of a `while`."""
        node.test = self._counted(node.test)
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Count both outcomes of a conditional expression."""
        node.test = self._counted(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Count the operands that decide whether the next one is looked at."""
        *deciding, last = node.values
        node.values = [*(self._counted(value) for value in deciding), self.visit(last)]
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Count both outcomes of each filter."""
        node.iter = self.visit(node.iter)
        node.ifs = [self._counted(condition) for condition in node.ifs]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Count what `any` and `all` look at."""
        consumer = node.func.id if isinstance(node.func, ast.Name) else ""
        if consumer in _CONSUMERS and isinstance(node.args[0], ast.GeneratorExp):
            generator = node.args[0]
            generator.elt = self._counted(generator.elt)
            generator.generators = [self.visit(one) for one in generator.generators]
            return node
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Count both outcomes of what a function that answers yes or no returns."""
        before, self._is_bool = (
            self._is_bool,
            isinstance(node.returns, ast.Name) and node.returns.id == "bool",
        )
        node.body = [self.visit(statement) for statement in node.body]
        self._is_bool = before
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """Count both outcomes of an answer that is no constant."""
        if self._is_bool and node.value is not None and not isinstance(node.value, ast.Constant):
            node.value = self._counted(node.value)
            return node
        return self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """Count that a case was taken."""
        taken = self._call(
            f"case {self._place(node.pattern)}: {ast.unparse(node.pattern)}", ast.Constant(value=True)
        )
        node.body = [ast.Expr(taken), *(self.visit(statement) for statement in node.body)]
        return node


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    for value in vars(module).values():
        owned = vars(value).values() if inspect.isclass(value) else (value,)
        for found in owned:
            one = found.fget if isinstance(found, property) else found
            if (
                isinstance(one, FunctionType)
                and one.__module__ == module.__name__
                and one.__code__.co_filename == module.__file__  # not what a dataclass makes
                and "<" not in one.__qualname__
            ):
                yield one


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            yield from _codes(constant)
