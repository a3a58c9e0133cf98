"""The commands, one module each: HELP, add(parser) and run(arguments)."""
