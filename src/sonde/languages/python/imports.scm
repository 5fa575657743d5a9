; Imports and calls; see imports.py for what each capture means.

(import_statement) @import
(import_from_statement) @import

(call function: (identifier) @called)
(call function: (attribute) @called)

(assignment left: (identifier) @assigned right: (call function: [(identifier) (attribute)]))
