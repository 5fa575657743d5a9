(use_declaration) @import
