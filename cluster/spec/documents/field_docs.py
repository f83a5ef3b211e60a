"""The docstring after each field of a class, which Python itself does not keep."""

import ast
import inspect
import textwrap


def field_docs(kind: type) -> dict[str, str]:
    """Field -> its docstring on one line, read from the source."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(words))):
                found[name] = " ".join(words.split())
    return found
