; Names that may stand for one another.
(identifier) @name

; Python has no primitive types: the names of its builtin types, where they are names of their own.
((identifier) @type
  (#any-of? @type "int" "float" "complex" "bool" "str" "bytes" "bytearray" "list" "tuple" "dict" "set"
    "frozenset" "object"))
(attribute attribute: (identifier) @no.type)
(keyword_argument name: (identifier) @no.type)
(function_definition name: (identifier) @no.type)
(class_definition name: (identifier) @no.type)
(parameters (identifier) @no.type)
(default_parameter name: (identifier) @no.type)
(typed_parameter . (identifier) @no.type)
(typed_default_parameter name: (identifier) @no.type)
(assignment left: (identifier) @no.type)
(for_statement left: (identifier) @no.type)

(comparison_operator operators: ["==" "!=" "<=" ">=" "<" ">"] @relational)

(assignment "=" @assignment)
(keyword_argument "=" @assignment)
(augmented_assignment ["+=" "-=" "*=" "/=" "%=" "//=" "**=" "|=" "&=" "^=" "<<=" ">>=" "@="] @assignment)

(block (_) @statement)
(block) @body

(assignment left: (_) @bound)
(for_statement left: (_) @bound)
(as_pattern_target (identifier) @bound)
(augmented_assignment left: (identifier) @bound)

; A getter gives a field or a constant, a setter sets one field; documentation does not count.
(function_definition body: (block
  . (expression_statement (string))?
  . (return_statement [(attribute) (identifier) (none) (true) (false) (integer) (float) (string)]) .)) @accessor
(function_definition body: (block
  . (expression_statement (string))?
  . (expression_statement (assignment left: (attribute) right: (identifier))) .)) @accessor

; Statements behind which nothing of their block is reached.
[(return_statement) (raise_statement) (break_statement) (continue_statement)] @jump
