"""The site of the documentation: what MkDocs is told beyond ``mkdocs.yml`` (``make docs``)."""
