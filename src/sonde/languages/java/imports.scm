; Imports and calls; see imports.py for what each capture means.

(import_declaration) @import

(method_invocation !object name: (identifier) @bare)
(method_invocation object: [(identifier) (field_access)] name: (identifier) @called)
(object_creation_expression type: [(type_identifier) (scoped_type_identifier)] @new)
(object_creation_expression type: (generic_type . [(type_identifier) (scoped_type_identifier)] @new))
