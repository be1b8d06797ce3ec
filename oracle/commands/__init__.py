"""The commands, by what they do; each only translates between the command line and the library."""
