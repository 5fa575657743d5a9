; Names that may stand for one another: a variable is written unlike everything else that has a name.
((variable_name) @name (#not-eq? @name "$this"))
(scoped_property_access_expression name: (variable_name) @no.name)
(property_element name: (variable_name) @no.name)

(primitive_type) @type
(cast_type) @type

(binary_expression operator: ["==" "===" "!=" "!==" "<>" "<=" ">=" "<" ">"] @relational)

(assignment_expression "=" @assignment)
(augmented_assignment_expression operator: _ @assignment)
(static_variable_declaration "=" @assignment)

(compound_statement (_) @statement)
(compound_statement) @body

(assignment_expression left: (_) @bound)
(reference_assignment_expression left: (_) @bound)
(augmented_assignment_expression left: (_) @bound)
(foreach_statement "as" . (_) @bound)
(catch_clause name: (_) @bound)
(update_expression argument: (variable_name) @bound)

; A getter gives a property or a constant, a setter sets one property and may give its object.
(_ body: (compound_statement . (return_statement [
    (variable_name) (member_access_expression) (scoped_property_access_expression) (class_constant_access_expression)
    (null) (boolean) (integer) (float) (string) (encapsed_string) (name)
  ]) .)) @accessor
(_ body: (compound_statement . (expression_statement (assignment_expression
    left: [(member_access_expression) (scoped_property_access_expression)] right: (variable_name))) .)) @accessor
(_ body: (compound_statement . (expression_statement (assignment_expression
    left: [(member_access_expression) (scoped_property_access_expression)] right: (variable_name)))
  . (return_statement (variable_name)) .)) @accessor

; The grammar takes any word for a name, any row of modifiers, and calls of `__CLASS__`.
((name) @refused (#match? @refused "^(abstract|and|array|as|break|callable|case|catch|class|clone|const|continue|declare|default|do|echo|else|elseif|enddeclare|endfor|endforeach|endif|endswitch|endwhile|extends|final|finally|fn|for|foreach|function|global|goto|if|implements|include|include_once|instanceof|insteadof|interface|list|match|namespace|new|or|print|private|protected|public|require|require_once|return|switch|throw|trait|try|unset|use|var|while|xor|yield)$"))
(_ (visibility_modifier) (visibility_modifier) @refused)
(_ (static_modifier) (static_modifier) @refused)
(_ (final_modifier) (final_modifier) @refused)
(_ (abstract_modifier) (abstract_modifier) @refused)
((function_call_expression function: (name) @refused) (#match? @refused "^__[A-Z]+__$"))
; Members and variables may be named by any word.
(variable_name (name) @no.refused)
(_ object: (_) name: (name) @no.refused)
(scoped_call_expression name: (name) @no.refused)
(class_constant_access_expression (_) (name) @no.refused)
(method_declaration name: (name) @no.refused)
(const_element (name) @no.refused)
(enum_case name: (name) @no.refused)
(argument name: (name) @no.refused)
(namespace_name (name) @no.refused)
(qualified_name (name) @no.refused)

; Statements behind which nothing of their block is reached; what leaves a loop has to stand in one.
[(return_statement) (break_statement) (continue_statement) (goto_statement) (exit_statement)] @jump
(expression_statement (throw_expression)) @jump
(break_statement) @loose.break
(continue_statement) @loose.break
[(for_statement) (foreach_statement) (while_statement) (do_statement) (switch_statement)] @around.break
[(function_definition) (method_declaration) (anonymous_function) (arrow_function)] @barrier
