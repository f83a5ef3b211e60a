"""What compose/gpu.yml runs beside and inside its nodes."""
