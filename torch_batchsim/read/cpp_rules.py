"""Rules of an author's C++: it runs on every device, and its reader in Python sees everything that systems do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ..base.names import CPP_KEYWORDS
from ..base.shared import LANES
from ..declare.declaration import ENGINE_HEADERS
from ..errors import SchemaError
from ..types import FIELD_TYPES
from .cpp_text import Declaration, Source, Token, outside_of_brackets
from .order_of_draws import check_order

_MARKS = ("TBS_FUNCTION", "TBS_METHOD", "TBS_INLINE", "TBS_CALLED", "TBS_ONE_COPY", "TBS_PRECOMPILED", "TBS_SYSTEM")

NOTE_VALUES = (
    'note a value by world.log("label", value): env.sim.logs() returns the notes of an environment made with log=True '
    "(docs/debugging.md)"
)

# Words without a meaning on some device, and words by which a system would leave its signature.
_FORBIDDEN = {
    **dict.fromkeys(
        ("new", "delete", "malloc", "calloc", "realloc"),
        "systems do not allocate; declare a component, or an archetype",
    ),
    "const_cast": "others read const memory at the same time; take it without const, so that the engine knows",
    "reinterpret_cast": "memory is reached by components only; for the bits of a number use to_bits and from_bits",
    **dict.fromkeys(
        ("union", "bit_cast", "memcpy", "memmove"),
        "it could make a pointer to const memory; for the bits of a number use to_bits and from_bits",
    ),
    **dict.fromkeys(
        ("printf", "fprintf", "puts", "fputs", "putchar"),
        f"systems print nothing: {NOTE_VALUES}",
    ),
    **dict.fromkeys(
        ("fopen", "getenv"),
        "the world is the only input and output of a system; declare a parameter or a resource",
    ),
    "assert": 'it would end the process; report by world.check(condition, "message", number)',
    "extern": "systems reach no other definitions; define it here, or declare a parameter or a component",
    "_Pragma": "the engine sets the compiler's warnings",
    "thread_local": "systems keep nothing between calls; declare a singleton",
    **dict.fromkeys(("goto", "asm", "__asm__", "__asm"), "some device lacks it"),
    **dict.fromkeys(("throw", "try", "catch"), "a device has no exceptions; report by world.fail(Fault::name)"),
    **dict.fromkeys(("dynamic_cast", "typeid", "virtual"), "a device has no types at run time"),
    **dict.fromkeys(("co_await", "co_yield", "co_return"), "a device has no coroutines"),
    **dict.fromkeys(
        ("__device__", "__host__", "__global__", "__shared__", "__constant__", "__managed__"),
        "write TBS_FUNCTION in front of functions; the engine knows the device",
    ),
}


_LOOKED_AT = frozenset((*_FORBIDDEN, "using", "::", "("))
_OPERATIONS = "for_each once sum min max count any all scan ballot broadcast".split()  # csrc/tbs/lanes.h
_DIGRAPHS = ("<:", ":>", "<%", "%>", "%:")


def check_words(source: Source) -> None:
    """Raise SchemaError, with file and line, for words that a file, its macros included, may not hold."""
    for tokens in (source.tokens, *(macro.body for macro in source.macros)):
        _check_words(source, tokens)
        _check_marks(source, tokens)
    for macro in source.macros:
        if macro.name in CPP_KEYWORDS:
            raise SchemaError(f"{source.place(macro.line)}: macro {macro.name} redefines a word of C++; rename it")
        if macro.name.startswith("TBS_") or any(token.text == "TBS_SYSTEM" for token in macro.body):
            raise SchemaError(
                f"{source.place(macro.line)}: macro {macro.name}: systems are written out, not by macros, and names "
                "that begin with TBS_ are the engine's"
            )
        for index, token in enumerate(macro.body):
            if token.text == "static" and not _constant(macro.body, index):
                raise _static(source, token, f"macro {macro.name}")


def check_rules(source: Source, declared: Sequence[Declaration]) -> None:
    """Raise SchemaError, with file and line, for declarations that a file may not hold."""
    _check_ends(source)
    understood = {declaration.first for declaration in declared if _is_system(source, declaration)}
    for index, token in enumerate(source.tokens):
        if token.text == "TBS_SYSTEM":
            _check_system(source, index, understood, declared)
    _check_loops(source)
    _check_operations(source, declared)
    _check_episode(source, declared)
    check_order(source, declared)
    defined = {source.tokens[each.name].text for each in declared if each.kind == "function" and each.body}
    for declaration in declared:
        if declaration.kind == "function":
            _check_function(source, declaration, defined)
        elif declaration.kind == "variable":
            _check_variable(source, declaration)
    heads = {
        index
        for declaration in declared
        for index, _ in outside_of_brackets(source, declaration.first, declaration.last)
    }
    for index, token in enumerate(source.tokens):  # in a lambda that is not in a function
        if token.text == "static" and index not in heads and not _constant(source.tokens, index):
            raise _static(source, token, "a lambda")


_BEGINNINGS = ("TBS_SYSTEM", "TBS_FUNCTION", "TBS_CALLED", "TBS_ONE_COPY", "TBS_PRECOMPILED")
_BEGINNINGS += ("struct", "constexpr", "namespace", "template")
_IN_FRONT = frozenset(("static", "inline", "constexpr", "enum", "typedef", "friend", "export", "template", "typename"))


def _check_ends(source: Source) -> None:
    """Reject a declaration without the ``;`` that ends it: the compiler, and this reader, would take the next with it.

    Only a declaration whose first word is the first of its line shows that the one in front has no end.
    """
    macros = {macro.name for macro in source.macros}
    for index, token in enumerate(source.tokens):
        before = source.tokens[index - 1] if index else None
        if token.text not in _BEGINNINGS or before is None or before.line == token.line:
            continue
        opened = source.partner.get(index - 1, index)
        if before.text == "}" and not _ends_with_semicolon(source, opened):
            continue
        if before.text == ")" and not _is_declared_or_called(source, opened):
            continue
        if before.text in macros or (before.text == "]" and source.tokens[opened + 1].text == "["):
            continue  # it may hold its own `;`, or is an attribute
        ends = before.text in ("}", ")", "]") or before.text[0] in "\"'.0123456789" or before.is_word
        if ends and before.text not in (*_IN_FRONT, *_MARKS):
            missing = "a ';' or a body, { ... }," if before.text == ")" else "a ';'"
            raise SchemaError(
                f"{source.place(before)}: {missing} is missing behind '{before.text}', before the '{token.text}' of "
                f"line {token.line}"
            )


def _is_declared_or_called(source: Source, opened: int) -> bool:
    """Whether the brackets that open here are of ``i32 twice(i32 x)`` or ``= twice(3)``, not of a macro as a whole."""
    front = [each.text for each in source.tokens[max(opened - 2, 0) : opened]]
    return len(front) == 2 and front[1] not in ("requires", "alignas") and front[0] not in (";", "}", ")")


def _ends_with_semicolon(source: Source, opened: int) -> bool:
    """Whether a ``;`` belongs behind the brace that opens here: of a type or of values, not of a function or block."""
    tokens, at = source.tokens, opened - 1
    if at < 0 or tokens[at].text in (")", ";", "{", "}", "else", "do", "try") or not tokens[at].text.strip(":]>"):
        return False
    first = at
    while first >= 0 and tokens[first].text not in (";", "{", "}", "(", ")"):
        first -= 1
    words = {each.text for each in tokens[first + 1 : opened]}
    return bool(words & {"struct", "class", "enum", "union", "=", "constexpr"}) and "namespace" not in words


def _is_system(source: Source, declaration: Declaration) -> bool:
    begins = source.tokens[declaration.first].text == "TBS_SYSTEM" and declaration.where == "file"
    return begins and declaration.kind == "function" and declaration.body is not None


def _check_system(source: Source, index: int, understood: set[int], declared: Sequence[Declaration]) -> None:
    place = source.place(source.tokens[index])
    if index not in understood:
        around = [d.first for d in declared if d.where == "file" and d.first < index < d.last]
        before = source.text(around[0], index) if around else ""
        raise SchemaError(
            f"{place}: this TBS_SYSTEM is not understood; write a system outside of structs, namespaces, "
            "templates and macros as TBS_SYSTEM void name(World &world, ...) { ... }"
            + (f"; in front of it stands '{before}' ({source.place(source.tokens[around[0]])})" if before else "")
        )
    if any(first <= index < last for first, last in source.conditional):
        raise SchemaError(
            f"{place}: a system between #if and #endif: the engine cannot know whether it is compiled; put #if inside "
            "of the system, or use Constants"
        )


def _check_words(source: Source, tokens: Sequence[Token]) -> None:
    for index, token in enumerate(tokens):
        text = token.text
        if text not in _LOOKED_AT and not text.startswith("__builtin_"):
            continue
        before = tokens[index - 1].text if index else ""
        if text.startswith("__builtin_"):
            raise SchemaError(
                f"{source.place(token)}: '{text}' in systems: not every device has it; for the bits of a number use "
                "to_bits and from_bits"
            )
        if text in _FORBIDDEN and not (text == "delete" and before == "=") and before not in (".", "->"):
            raise SchemaError(f"{source.place(token)}: '{text}' in systems: {_FORBIDDEN[text]}")
        behind = [each.text for each in tokens[index + 1 : index + 3]]
        if text == "using" and behind == ["namespace", "std"]:
            raise SchemaError(f"{source.place(token)}: 'using namespace std' in systems: they have no standard library")
        is_global = text == "::" and not (index and _ends_name(tokens[index - 1]))
        is_called = behind[1:] == ["("] and behind[0] not in FIELD_TYPES
        if is_global and (is_called or (behind[:1] == ["std"] and not _is_of_engine(source))):
            raise SchemaError(
                f"{source.place(token)}: '::{behind[0]}' in systems: leave out the '::' in front; systems have the "
                "engine's functions (docs/reference.md) and their own"
            )
        if text == "(" and _casts_to_reference(tokens, index):
            raise SchemaError(
                f"{source.place(token)}: a cast to a reference or pointer in systems: it could write what is const; "
                "take the component as you need it, so that the engine knows"
            )


def _is_of_engine(source: Source) -> bool:
    return source.path.is_relative_to(ENGINE_HEADERS.resolve())


def _ends_name(token: Token) -> bool:
    """Whether a ``::`` behind the token belongs to it: ``ring::``, ``Spot<3>::``."""
    return (token.is_word and token.text not in ("return", "else", "case", "do", "typename")) or token.text == ">"


def _functions(source: Source, declared: Sequence[Declaration]) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """The first and last token of each function's body, and the words in front of it from its name on."""
    for declaration in declared:
        if declaration.kind == "function" and declaration.body is not None:
            yield declaration.body, [each.text for each in source.tokens[declaration.name : declaration.body[0]]]


def _check_operations(source: Source, declared: Sequence[Declaration]) -> None:
    """Reject operations of lanes inside of another operation's lambda: lanes would wait for each other there."""
    tokens = source.tokens
    for (first, last), head in _functions(source, declared):
        groups = {head[i + 2] for i in range(len(head) - 2) if head[i] in LANES and head[i + 1] == "&"}
        calls = [i for i in range(first, last) if tokens[i].text in groups and _is_operation(tokens, i)]
        for outer, inner in ((outer, inner) for outer in calls for inner in calls if outer < inner):
            end = source.partner[outer + 3]
            lambdas = [i for i in range(outer + 3, end) if tokens[i].text == "{"]
            if any(begin < inner < source.partner[begin] for begin in lambdas):
                raise SchemaError(
                    f"{source.place(tokens[inner])}: {source.text(inner, inner + 3)} inside of "
                    f"{source.text(outer, outer + 3)}: all lanes reach an operation together, so none is inside of "
                    "another; put it in front, or write a plain loop"
                )


def _is_operation(tokens: Sequence[Token], i: int) -> bool:
    """Whether ``warp.sum(`` begins here."""
    texts = [token.text for token in tokens[i + 1 : i + 4]]
    return len(texts) == 3 and texts[0] == "." and texts[1] in _OPERATIONS and texts[2] == "("


def _check_episode(source: Source, declared: Sequence[Declaration]) -> None:
    """Reject writes to the step of the episode, on which time limits depend."""
    for body, head in _functions(source, declared):
        names = [head[i + 2] for i in range(len(head) - 2) if head[i : i + 2] == ["Episode", "&"]]
        first, last = source.tokens[body[0]], source.tokens[body[1] - 1]
        for name in filter(str.isidentifier, names):  # a parameter may lack a name
            written = rf"(?:\+\+|--)\s*{name}\.step\b|\b{name}\.step\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
            found = re.search(written, source.code[first.start : last.start])
            if found:
                place = source.place(first.line + source.code.count("\n", first.start, first.start + found.start()))
                raise SchemaError(
                    f"{place}: {name}.step is written: the engine counts steps; end the episode by {name}.terminated "
                    f"or {name}.truncated"
                )


def _check_loops(source: Source) -> None:
    """Reject ``for (...); { ... }``, whose braces run once, whatever the head says."""
    tokens = source.tokens
    for index, token in enumerate(tokens):
        if token.text not in ("for", "while", "if") or index + 1 not in source.partner:
            continue
        if token.text == "while" and index and tokens[index - 1].text == "}":  # the end of a do
            continue
        end = source.partner[index + 1]
        if [each.text for each in tokens[end + 1 : end + 3]] == [";", "{"]:
            raise SchemaError(
                f"{source.place(tokens[end + 1])}: this ';' ends the '{token.text}', and the braces behind it run "
                "once: leave the ';' out"
            )


def _check_marks(source: Source, tokens: Sequence[Token]) -> None:
    """Reject other spellings of brackets and ``#``, and marks that join words: the reader takes words one by one."""
    for token, after in zip(tokens, (*tokens[1:], Token(" ", 0)), strict=False):
        pair = token.text + after.text[0] if after.start == token.start + 1 else ""
        if token.text == "\\":
            raise SchemaError(f"{source.place(token)}: a line is continued outside of a directive: write it in one")
        if pair in _DIGRAPHS and not (pair == "<:" and after.text == "::"):  # Rows<::Spot>
            raise SchemaError(f"{source.place(token)}: '{pair}' in systems: write {{ }} [ ] or #, or a space between")
        if pair == "##":
            raise SchemaError(
                f"{source.place(token)}: '##' in systems: names are written out, so that the engine can read them"
            )


def _static(source: Source, token: Token, where: str) -> SchemaError:
    return SchemaError(
        f"{source.place(token)}: a static variable in {where}: systems keep nothing between calls, and rows run at "
        "once; declare a singleton, or write constexpr"
    )


def _casts_to_reference(tokens: Sequence[Token], index: int) -> bool:
    """Whether a C cast such as ``(Place &)place`` begins here."""
    before = tokens[index - 1] if index else None
    if before and before.text != "return" and (before.is_word or before.text in "])>"):
        return False  # the parameters of a function or lambda, sizeof(...), a call
    at = index + 1
    while at < len(tokens) and (tokens[at].is_word or tokens[at].text == "::"):
        at += 1
    marks = at
    while at < len(tokens) and tokens[at].text in "&*":
        at += 1
    if marks == index + 1 or at == marks or at + 1 >= len(tokens) or tokens[at].text != ")":
        return False
    behind = tokens[at + 1]
    return behind.is_word or behind.text in ("(", "&", "*")


def _check_function(source: Source, declaration: Declaration, defined: Collection[str]) -> None:
    place, name = source.place(source.tokens[declaration.first]), source.tokens[declaration.name].text
    words = declaration.words
    given_up = "default" in words or "delete" in words
    if not words & {*_MARKS, "consteval"} and not given_up:
        mark = "TBS_METHOD" if declaration.where == "struct" else "TBS_FUNCTION"
        begin = [token.text for token in source.tokens[declaration.name + 2 : declaration.name + 4]]
        if begin in (["World", "&"], ["Worlds", "<"]):
            mark = f"TBS_SYSTEM, if it is a system, else {mark}"
        raise SchemaError(f"{place}: put {mark} in front of function '{name}': without it a device cannot call it")
    if declaration.body is None:
        if declaration.where == "struct" or given_up or "TBS_PRECOMPILED" in words or name in defined:
            return
        raise SchemaError(f"{place}: function '{name}' has no body in this file; define it in it")
    for index in range(*declaration.body):
        if source.tokens[index].text == "static" and not _constant(source.tokens, index):
            raise _static(source, source.tokens[index], f"'{name}'")


def _constant(tokens: Sequence[Token], index: int) -> bool:
    around = tokens[max(index - 1, 0) : index + 2]
    return any(token.text == "constexpr" for token in around)


def _check_variable(source: Source, declaration: Declaration) -> None:
    token = source.tokens[declaration.first]
    if declaration.where == "struct" and "static" not in declaration.words:
        return
    if "constexpr" not in declaration.words:
        raise SchemaError(
            f"{source.place(token)}: a variable outside of functions ('{_head(source, declaration)}'): systems keep "
            "nothing between calls, and rows run at once; declare a singleton, or write constexpr"
        )
    for index in range(declaration.first + 1, declaration.last):
        before = source.tokens[index - 1]
        if source.tokens[index].text == "[" and before.is_word:
            raise SchemaError(
                f"{source.place(token)}: a table outside of functions ('{_head(source, declaration)}'), which a "
                "device cannot read: put it inside the function that uses it"
            )
        if source.tokens[index].text in ("=", "{", ";"):
            return


def _head(source: Source, declaration: Declaration) -> str:
    text = source.text(declaration.first, declaration.last)
    return text if len(text) <= 60 else text[:57] + "..."


MEMBERS = r"(?:\s*(?:\.|->)\s*\w+|\s*\[[^\[\]]*\])*"  # .field, ->field, [i] behind a name
ASSIGNMENT = r"\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
