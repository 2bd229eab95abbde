"""KuiperInfer runs PyTorch models, converted to PNNX, on a CPU."""
