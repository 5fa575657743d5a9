; `isset`, `empty`, `eval` and `die` are words of the language, which the grammar takes for names.
((function_call_expression function: (name) @bare arguments: (_) @arguments)
  (#not-match? @bare "^([iI][sS][sS][eE][tT]|[eE][mM][pP][tT][yY]|[eE][vV][aA][lL]|[dD][iI][eE])$"))

(function_call_expression function: (qualified_name (name) @bare .) arguments: (_) @arguments)

(function_call_expression function: (relative_name (name) @bare .) arguments: (_) @arguments)

(member_call_expression name: (name) @method arguments: (_) @arguments)

(nullsafe_member_call_expression name: (name) @method arguments: (_) @arguments)

(scoped_call_expression name: (name) @method arguments: (_) @arguments)

; `new A()` calls A by name, `new self()` no name; `new A` has no arguments to stand for.
((object_creation_expression (name) @bare (arguments) @arguments)
  (#not-match? @bare "^(self|static|parent)$"))

(object_creation_expression (qualified_name (name) @bare .) (arguments) @arguments)

(object_creation_expression (relative_name (name) @bare .) (arguments) @arguments)
