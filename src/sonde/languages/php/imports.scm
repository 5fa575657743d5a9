; Imports and calls; see imports.py for what each capture means.

(namespace_use_declaration) @import

(scoped_call_expression scope: [(name) (qualified_name)] name: (name)) @call
(object_creation_expression [(name) (qualified_name)] @new)
(function_call_expression function: [(name) (qualified_name)] @function)
