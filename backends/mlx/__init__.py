"""The MLX runtime: mlx-lm's model definitions, with caches, decode step and acceptance of this package."""
