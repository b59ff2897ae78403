"""How programs are drawn."""
