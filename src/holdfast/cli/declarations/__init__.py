"""The arguments of every command, one module per purpose. Declarations only: nothing heavy is imported."""
