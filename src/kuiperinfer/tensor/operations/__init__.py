"""What tensors can do beyond arithmetic, by family: reductions, products, convolution, pooling and so on."""
