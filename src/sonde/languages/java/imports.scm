; Scopes, bindings, imports and calls; see imports.py for what each capture means.

(class_body) @scope.class
(interface_body) @scope.class
(enum_body) @scope.class
(annotation_type_body) @scope.class
(method_declaration) @scope.function
(constructor_declaration) @scope.function
(record_declaration) @scope.function
(lambda_expression) @scope.function
(block) @scope.function
(for_statement) @scope.function
(enhanced_for_statement) @scope.function
(try_with_resources_statement) @scope.function
(catch_clause) @scope.function
(switch_block) @scope.function
(class_declaration) @scope.function
(interface_declaration) @scope.function

; The name of a declaration belongs to the scope around it.
(method_declaration name: (identifier) @outside)
(record_declaration name: (identifier) @outside)
(class_declaration name: (identifier) @outside)
(interface_declaration name: (identifier) @outside)

(class_declaration name: (identifier) @bind)
(interface_declaration name: (identifier) @bind)
(enum_declaration name: (identifier) @bind)
(record_declaration name: (identifier) @bind)
(annotation_type_declaration name: (identifier) @bind)
(type_parameter . (type_identifier) @bind)

(variable_declarator name: (identifier) @bind)
(formal_parameter name: (identifier) @bind)
(inferred_parameters (identifier) @bind)
(lambda_expression parameters: (identifier) @bind)
(enhanced_for_statement name: (identifier) @bind)
(catch_formal_parameter name: (identifier) @bind)
(resource name: (identifier) @bind)
(enum_constant name: (identifier) @bind)
(instanceof_expression name: (identifier) @bind)
(type_pattern (identifier) @bind)
(record_pattern_component (identifier) @bind)

; Methods have names of their own: a variable `max` does not hide a method `max`.
(method_declaration name: (identifier) @method)

(import_declaration) @import

(method_invocation !object name: (identifier) @bare)
(method_invocation object: [(identifier) (field_access)] name: (identifier) @called)
(object_creation_expression type: [(type_identifier) (scoped_type_identifier)] @new)
(object_creation_expression type: (generic_type . [(type_identifier) (scoped_type_identifier)] @new))
