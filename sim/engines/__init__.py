"""What a scenario can be run on: a module an engine, by its name, with the object ``ENGINE``."""
