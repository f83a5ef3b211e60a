"""GPUs: reading them through NVML, and the programs of compose/gpu.yml."""
