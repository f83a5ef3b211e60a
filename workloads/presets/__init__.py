"""Ready-made sweeps, a TOML file each (docs/sweeps.md), and the models of their own."""
