(import_declaration) @import

(import_spec) @spec
